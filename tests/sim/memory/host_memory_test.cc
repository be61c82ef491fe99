#include "sim/memory/host_memory.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/memory/device_use.h"
#include "sim/program/blocks/parameters.h"
#include "traces/timeline.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

ModelSpec Small() {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.ffn_hidden = 256;
  model.vocab = 1000;
  model.max_sequence = 32;
  return model;
}

Plan Offloading() {
  Plan plan;
  plan.sequence = 32;
  plan.micro_batch = 1;
  plan.dp = 2;
  plan.global_batch = 2;
  plan.zero_stage = 1;
  plan.precision = Precision::kBf16;
  plan.offload_optimizer = OffloadTarget::kHost;
  return plan;
}

Program Compiled(const Plan& plan) {
  auto program = Compile(Small(), plan, {.ranks = RankChoice::kFirst});
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return *std::move(program);
}

ClusterSpec Gpus() {
  ClusterSpec cluster;
  cluster.devices_per_node = 2;
  cluster.device.memory_bytes = kGiB;
  cluster.host_memory_bytes = 16 * kGiB;
  return cluster;
}

std::int64_t SumOf(const RankProgram& rank, Space space, bool in_powers) {
  std::int64_t sum = 0;
  for (const Buffer& buffer : rank.buffers) {
    if (buffer.space != space || !buffer.persistent) continue;
    std::int64_t taken = buffer.bytes;
    if (in_powers) {
      taken = 1;
      while (taken < buffer.bytes) taken *= 2;
    }
    sum += taken;
  }
  return sum;
}

// Offloaded optimizer state lives for the whole run. The arena rounds it to pages, PyTorch rounds
// each block to a power of two.
TEST(HostMemory, RoundsPinnedBuffersAsTheirAllocatorDoes) {
  const Program program = Compiled(Offloading());
  const RankProgram& rank = program.ranks.front();
  const HostMemory own = HostMemoryOf(Small(), program, rank, Gpus(), {});
  EXPECT_GE(own.pinned, SumOf(rank, Space::kPinned, false));
  EXPECT_EQ((own.pinned + own.rounding) % 4096, 0);
  EXPECT_EQ(own.state, SumOf(rank, Space::kPinned, false) + SumOf(rank, Space::kHost, false));
  ASSERT_GT(own.pinned, 0);
  SystemOptions torch;
  torch.pinned_powers = true;
  const HostMemory powers = HostMemoryOf(Small(), program, rank, Gpus(), torch);
  EXPECT_EQ(powers.pinned, own.pinned);
  EXPECT_GE(powers.pinned + powers.rounding, SumOf(rank, Space::kPinned, true));
  EXPECT_LE(powers.rounding, powers.pinned);  // no block grows to more than twice its size
}

// A process with a device in use takes 1204 MiB, Python and PyTorch's libraries 1068 MiB more.
// Ranks on CPUs are threads of one process that is not counted.
TEST(HostMemory, CountsAProcessARank) {
  const Program program = Compiled(Offloading());
  const RankProgram& rank = program.ranks.front();
  SystemOptions torch;
  torch.caching_allocator = true;
  EXPECT_EQ(HostMemoryOf(Small(), program, rank, Gpus(), {}).process, 1204 * kMiB);
  EXPECT_EQ(HostMemoryOf(Small(), program, rank, Gpus(), torch).process, 2272 * kMiB);
  ClusterSpec cpus = Gpus();
  cpus.is_cpu = true;
  EXPECT_EQ(HostMemoryOf(Small(), program, rank, cpus, torch).process, 0);
}

// For N parameters the whole model is 2 N bytes in bf16, in each process or in one of the node's
// two. A shard is 2 N bytes of weights and 12 N / 2 of masters and moments.
TEST(HostMemory, LoadsAShardOrTheWholeModel) {
  Plan plan = Offloading();
  plan.offload_optimizer = OffloadTarget::kNone;
  const Program program = Compiled(plan);
  const RankProgram& rank = program.ranks.front();
  const std::int64_t n = CountParameters(Small(), plan).all;
  SystemOptions system;
  system.profiled = false;
  const auto host = [&](LoadOrder order) {
    system.load = order;
    return HostMemoryOf(Small(), program, rank, Gpus(), system);
  };
  const HostMemory whole = host(LoadOrder::kWhole);
  EXPECT_EQ(whole.loading, 2 * n);
  EXPECT_EQ(NodeMemoryOf(whole, 2).while_loading, 2 * (1204 * kMiB + 2 * n));
  EXPECT_EQ(NodeMemoryOf(host(LoadOrder::kOneProcess), 2).while_loading, 2 * 1204 * kMiB + 2 * n);
  const HostMemory shard = host(LoadOrder::kShard);
  EXPECT_NEAR(static_cast<double>(shard.loading), 8.0 * static_cast<double>(n),
              0.02 * 8.0 * static_cast<double>(n));
  EXPECT_EQ(NodeMemoryOf(shard, 2).in_step, 2 * 1204 * kMiB);
}

TEST(HostMemory, HoldsASpanOfEachOpTwiceWhereItIsProfiled) {
  const Program program = Compiled(Offloading());
  const RankProgram& rank = program.ranks.front();
  EXPECT_EQ(HostMemoryOf(Small(), program, rank, Gpus(), {}).profiler,
            2 * rank.op_count * static_cast<std::int64_t>(sizeof(Span)));
}

// Two ranks share 16 GiB: 8 each, minus 1204 MiB for the process.
TEST(HostMemory, SharesANodeAmongItsRanks) {
  EXPECT_EQ(HostShareOf(Gpus(), {}), 8 * kGiB - 1204 * kMiB);
  ClusterSpec unknown = Gpus();
  unknown.host_memory_bytes = 0;
  EXPECT_EQ(HostShareOf(unknown, {}), 0);
}

// A device without a caching allocator holds the arena, not just the buffers in use at the peak.
TEST(DeviceUse, IsTheArenaAndWhatLiesOutside) {
  const Program program = Compiled(Offloading());
  const RankProgram& rank = program.ranks.front();
  const DeviceUse use = DeviceUseOf(Small(), program, rank, 100, Gpus(), {});
  EXPECT_EQ(use.tensors + use.held, rank.arena_bytes[static_cast<std::size_t>(Space::kDevice)]);
  // 1271 MiB of context, two groups (data parallelism, world) in a node of two at 256 MiB. Then 32
  // MiB of workspace, three buffers of 3.2 MB, a hundredth of 1 GiB.
  EXPECT_EQ(use.outside.Total(), (1271 + 512 + 64) * kMiB + 9'600'000 + kGiB / 100);
  EXPECT_EQ(use.Total(), use.tensors + use.held + use.outside.Total());
}

// Cached segments take only the rest of the device, so they make no plan fail.
TEST(DeviceUse, IsNoMoreThanTheDeviceWhereTheTensorsFit) {
  ClusterSpec cluster = Gpus();
  SystemOptions system;
  system.caching_allocator = true;
  const auto of = [&](std::int64_t device_bytes) {
    cluster.device.memory_bytes = device_bytes;
    return DeviceUseOf(Small(), Offloading(), RankCoordinates{}, 100, 0, cluster, system);
  };
  const DeviceUse roomy = of(64 * kGiB);
  EXPECT_GT(roomy.cached, 0);
  EXPECT_EQ(roomy.Needed(), roomy.Total() - roomy.cached);
  // The driver takes a hundredth: a device a hundredth larger than everything else just suffices.
  const std::int64_t without_driver = roomy.Needed() - roomy.outside.driver;
  const DeviceUse full = of(without_driver * 100 / 99 + 100);
  EXPECT_EQ(full.tensors + full.held, roomy.tensors + roomy.held);
  EXPECT_LE(full.cached, 100);
  EXPECT_TRUE(Fits(full, cluster));
  EXPECT_LE(full.Total(), cluster.device.memory_bytes);
  const DeviceUse over = of(without_driver);
  EXPECT_FALSE(Fits(over, cluster));
  EXPECT_EQ(over.cached, 0);
}

}  // namespace
}  // namespace foretrain

#include "sim/validate/predict_run.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/memory/device_use.h"

namespace foretrain {
namespace {

ModelSpec SmallModel() {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 8;
  model.heads = model.kv_heads = 4;
  model.head_dim = 2;
  model.ffn_hidden = 32;
  model.vocab = 128;
  model.max_sequence = 16;
  return model;
}

Plan SmallPlan() {
  Plan plan;
  plan.tp = 2;
  plan.sequence = 16;
  plan.micro_batch = plan.global_batch = 1;
  return plan;
}

// Outside the segments: 1271 MiB of context, 256 MiB for each of the groups tp and world on one
// node, and 32 MiB of workspace. Two groups of the system itself add 512 MiB. Memory of the driver
// belongs to no process.
TEST(MemoryFigure, ShowsWhatNvidiaSmiCounts) {
  ClusterSpec cluster;
  cluster.devices_per_node = 2;
  cluster.device.memory_bytes = 10 * kGiB;
  SystemOptions system;
  system.profiled = false;
  system.caching_allocator = true;
  const auto stated = [&](MemoryFigure figure) {
    system.memory_figure = figure;
    return StatedMemoryOf(SmallModel(), SmallPlan(), system, cluster).stated;
  };
  const std::int64_t outside = stated(MemoryFigure::kNvidiaSmi) - stated(MemoryFigure::kReserved);
  EXPECT_EQ(outside, std::int64_t{1271 + 512 + 64} << 20);
  system.own_communicators = 2;
  EXPECT_EQ(stated(MemoryFigure::kNvidiaSmi) - stated(MemoryFigure::kReserved),
            outside + (std::int64_t{512} << 20));
  system.context_bytes = kGiB;
  EXPECT_EQ(stated(MemoryFigure::kNvidiaSmi) - stated(MemoryFigure::kReserved),
            std::int64_t{1024 + 1024 + 64} << 20);
}

// The small model uses less than 2 MiB. With memory outside the allocator it needs at most 1271 +
// 512 + 64 + 2 MiB, and the driver keeps a hundredth of the device.
TEST(MemoryFigure, FitsWhereDevicesHoldAllOfIt) {
  ClusterSpec cluster;
  cluster.devices_per_node = 2;
  SystemOptions system;
  system.profiled = false;
  system.caching_allocator = true;
  const auto fits = [&](std::int64_t mib) {
    cluster.device.memory_bytes = mib << 20;
    return StatedMemoryOf(SmallModel(), SmallPlan(), system, cluster).fits;
  };
  EXPECT_FALSE(fits(1271 + 512 + 64));
  EXPECT_FALSE(fits(1271 + 512 + 64 + 2));
  EXPECT_TRUE(fits((1271 + 512 + 64 + 2 + 1) * 100 / 99));
}

// 2 x 2 x 2 ranks on nodes of 2. Only tensor parallelism stays on one node; pipeline neighbours,
// data parallelism and the world span nodes, with 544 MB each.
TEST(DeviceOverhead, CountsACommunicatorForEachGroup) {
  ClusterSpec cluster;
  cluster.nodes = 4;
  cluster.devices_per_node = 2;
  Plan plan = SmallPlan();
  EXPECT_EQ(CommunicatorsOf(cluster, plan).all, 2);
  EXPECT_EQ(CommunicatorsOf(cluster, plan).between_nodes, 0);
  plan.pp = plan.dp = 2;
  EXPECT_EQ(CommunicatorsOf(cluster, plan).all, 5);
  const DeviceOverhead overhead = DeviceOverheadOf(cluster, plan, {});
  const int far = CommunicatorsOf(cluster, plan).between_nodes;
  EXPECT_GE(far, 3);
  EXPECT_NEAR(static_cast<double>(overhead.communicators), far * 544e6 + (5 - far) * 0.25 * kGiB,
              8.0);
  SystemOptions own;
  own.own_communicators = 4;
  EXPECT_EQ(DeviceOverheadOf({}, Plan{}, own).communicators, 0);
  ClusterSpec host;
  host.is_cpu = true;
  EXPECT_EQ(DeviceOverheadOf(host, plan, own).Total(), 0);
}

}  // namespace
}  // namespace foretrain

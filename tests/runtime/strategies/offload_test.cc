// Offloaded data is copied while compute runs: forced durations on a virtual clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/device/device.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/memory/host_memory.h"
#include "sim/simulate/simulate.h"
#include "tests/runtime/executor/forced_durations.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// A layer keeps x, norm1, attention, residual, norm2 of [16, 32], qkv of [16, 96], up and activated
// of [16, 64], lse of [16, 4] and four of [16] for means and deviations: 5 * 2048 + 6144 + 2 * 4096
// + 256 + 4 * 64 = 25,088 bytes. Its forward has 9 ops or more, its backward even more. At 1 ms an
// op and 25,088 bytes in 9 ms no copy is waited for. At a tenth of that rate the step takes at
// least as long as the copies of one direction.
TEST(ActivationOffload, HidesItsCopiesBehindTheNextLayers) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  const Forced here = RunForced(plan, kMs, 0, {}, 1);
  plan.offload_activations = OffloadTarget::kHost;
  const double rate = 25'088 / 9e-3;
  const Forced offloaded = RunForced(plan, kMs, 0, {rate, rate, 0}, 1);
  EXPECT_EQ(here.compute_ns, offloaded.compute_ns);
  // Layers 1 to 3 of each micro-batch: the backward of layer 4 comes too soon to offload it.
  std::int64_t out_bytes = 0, in_bytes = 0;
  for (const Span& span : offloaded.timeline.spans) {
    if (span.queue == Queue::kD2h) out_bytes += span.bytes;
    if (span.queue == Queue::kH2d && UnpackId(span.op).kind == InstructionKind::kCopyIn) {
      in_bytes += span.bytes;
    }
  }
  EXPECT_EQ(out_bytes, 2 * 3 * 25'088);
  EXPECT_EQ(in_bytes, out_bytes);
  EXPECT_EQ(offloaded.step_ns, here.step_ns) << "all copies are hidden";
  const Forced slow = RunForced(plan, kMs, 0, {rate / 10, rate / 10, 0}, 1);
  EXPECT_GE(slow.step_ns, 2 * 3 * 90 * kMs);
  EXPECT_GT(slow.step_ns, here.step_ns);
}

std::int64_t PeakOf(const Plan& plan, Space space) {
  auto program = Compile(TinyGpt(), plan);
  EXPECT_TRUE(program.has_value());
  return program->ranks[0].arena_bytes[static_cast<std::size_t>(space)];
}

TEST(ActivationOffload, FreesTheDevice) {
  Plan plan = TinyPlan();
  plan.micro_batch = 4;
  const std::int64_t here = PeakOf(plan, Space::kDevice);
  plan.offload_activations = OffloadTarget::kHost;
  EXPECT_LT(PeakOf(plan, Space::kDevice), here);
  EXPECT_GT(PeakOf(plan, Space::kPinned), 0);
  const std::int64_t pinned = PeakOf(plan, Space::kPinned);
  plan.offload_activations = OffloadTarget::kNvme;
  EXPECT_LE(PeakOf(plan, Space::kPinned), pinned);
  EXPECT_GT(PeakOf(plan, Space::kNvme), 0);
}

// Setup of the tests below: TinyGpt(false) in buckets of one block each. The embedding has 8,960
// parameters in 35,840 bytes, a layer 8,544 in 34,176, the head 8,256 in 33,024. Updates are in
// pieces of 5,120 and the rest of a block, 12 in total. Compute ops take 1 ms: forwards 1, 10 (a
// layer) and 3 ms, backwards 3, 18 and 5. T is the end of the compute.

// All updates of 2 ms follow the norm. The host updates a piece while the previous one is copied to
// the device, in at most 1 ms. Exposed are 12 updates and the copy of the last 3,136 parameters of
// the head, 12,544 bytes in 0.6125 ms.
TEST(OptimizerOffload, UpdatesAPieceWhileTheOneBeforeIsCopied) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  plan.clip_norm = 1.0;
  plan.offload_optimizer = OffloadTarget::kHost;
  const CopyCaps caps{20'480 / 1e-3, 0, 0};
  const Forced forced = RunForced(plan, kMs, 2 * kMs, caps, 1, TinyGpt(false));
  EXPECT_EQ(forced.BusyIn(Queue::kCpu, 0), 24 * kMs);
  EXPECT_EQ(forced.step_ns, forced.compute_ns + 24'612'500);
}

// Without a norm a block's updates follow its own gradients. Layer 1's last op makes a bias
// gradient and ends at T - 3 ms. Its two updates run from there to T + 1. The embedding's take 4 ms
// more; then 3,840 parameters remain to be copied: 15,360 bytes in 0.75 ms.
TEST(OptimizerOffload, UpdatesDuringTheBackwardWhereNothingClips) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  plan.offload_optimizer = OffloadTarget::kHost;
  const CopyCaps caps{20'480 / 1e-3, 0, 0};
  const Forced forced = RunForced(plan, kMs, 2 * kMs, caps, 1, TinyGpt(false));
  EXPECT_EQ(forced.step_ns, forced.compute_ns + 5'750'000);
}

// Moments and masters of a full piece, 61,440 bytes, are read or written in 1.5 ms, and an update
// takes 4: while it runs the disk writes the previous piece and reads the next. Exposed are 12
// updates and the last write, 3 times 12,544 bytes in 0.91875 ms.
TEST(OptimizerOffload, ReadsAndWritesDuringTheUpdates) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  plan.clip_norm = 1.0;
  plan.offload_optimizer = OffloadTarget::kNvme;
  const CopyCaps caps{0, 0, 61'440 / 1.5e-3};
  const Forced forced = RunForced(plan, kMs, 4 * kMs, caps, 1, TinyGpt(false));
  EXPECT_EQ(forced.step_ns, forced.compute_ns + 48'918'750);
}

// At 4 bytes a microsecond the copies take 8.960 ms (embedding), 8.544 (a layer) and 8.256 (head).
// With copies one use ahead, four are exposed:
//   the embedding's, 8.960;
//   layer 1's, less the embedding's 1 ms of forward, 7.544;
//   the head's second, issued after layer 4's forward, 4.256: less the head's 3 ms of forward and
//   the first op of its backward, which reads no parameters;
//   layer 4's, next on the queue and overlapped with the other 4 ms of the head's backward, 4.544.
//   The sum is 25.304 ms. All others are hidden by layers, which take longer. With no copy ahead
//   all are exposed except the 1 ms of that op: 8.960 + 8 * 8.544 + 2 * 8.256 - 1 = 92.824 ms.
TEST(ParameterOffload, CopiesOneUseAhead) {
  Plan plan = TinyPlan();
  plan.global_batch = 1;
  plan.offload_parameters = plan.offload_optimizer = OffloadTarget::kHost;
  const CopyCaps caps{4e6, 0, 0};
  const Forced ahead = RunForced(plan, kMs, 0, caps, 1, TinyGpt(false));
  EXPECT_EQ(ahead.compute_ns, 124 * kMs);
  EXPECT_EQ(ahead.step_ns, ahead.compute_ns + 25'304'000);
  plan.prefetch_depth = 0;
  const Forced late = RunForced(plan, kMs, 0, caps, 1, TinyGpt(false));
  EXPECT_EQ(late.step_ns, late.compute_ns + 92'824'000);
}

// One micro-batch, copies of 4 bytes a microsecond: gradients leave in 8.256 ms (head), 8.544 (a
// layer) and 8.960 (embedding), while backwards of 18 ms run. Layer 1's exist at T - 3 ms and have
// left at T + 5.544, the embedding's at T + 14.504; two updates of 1 ms follow.
//
// Two micro-batches, copies ten times as fast: nothing waits between them, since the embedding's
// gradients have left in 0.896 ms and its forward takes 1. Then the embedding's sum takes an
// addition and two updates of 1 ms each; layer 1's ran from T - 2.1456 to T + 0.8544.
//
// Two micro-batches, copies of 4 bytes a microsecond: the second op of layer 1's forward reuses the
// memory of the embedding's gradients, and waits from 2 to 14.504 ms after the end of the first
// micro-batch. Then follow T + 14.504, an addition and two updates.
TEST(GradientOffload, OffloadsGradientsDuringTheBackward) {
  Plan plan = TinyPlan();
  plan.global_batch = 1;
  plan.offload_optimizer = plan.offload_gradients = OffloadTarget::kHost;
  const CopyCaps slow{0, 4e6, 0}, fast{0, 4e7, 0};
  const Forced one = RunForced(plan, kMs, kMs, slow, 1, TinyGpt(false));
  EXPECT_EQ(one.compute_ns, 124 * kMs);
  EXPECT_EQ(one.BusyIn(Queue::kCpu, 0), 12 * kMs);
  EXPECT_EQ(one.step_ns, one.compute_ns + 16'504'000);
  plan.global_batch = 2;
  const Forced two = RunForced(plan, kMs, kMs, fast, 1, TinyGpt(false));
  EXPECT_EQ(two.compute_ns, 2 * 124 * kMs);
  EXPECT_EQ(two.BusyIn(Queue::kCpu, 0), (6 + 12) * kMs);
  EXPECT_EQ(two.step_ns, two.compute_ns + 3'896'000);
  const Forced waits = RunForced(plan, kMs, kMs, slow, 1, TinyGpt(false));
  EXPECT_EQ(waits.step_ns, waits.compute_ns + 12'504'000 + 17'504'000);
}

// Bytes copied in one step, by queue.
std::map<Queue, std::int64_t> CopiedIn(const Timeline& timeline, int step) {
  std::map<Queue, std::int64_t> bytes;
  for (const Span& span : timeline.spans) {
    if (span.op_class == OpClass::kCopy && span.step == step) bytes[span.queue] += span.bytes;
  }
  return bytes;
}

Simulation Predict(const Plan& plan) {
  auto program = Compile(TinyGpt(), plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  auto cluster = LocalCluster(plan.World(), std::int64_t{8} << 30, 2);
  auto model = CostModel::Make(*cluster, DeriveProfile(*cluster));
  auto costs = model->CostsOf(*program);
  auto simulation = Simulate(*program, *costs);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return *std::move(simulation);
}

TEST(OptimizerOffload, MovesThePredictedBytes) {
  for (const bool stream : {false, true}) {
    Plan plan = TinyPlan();
    plan.dp = 2;
    plan.zero_stage = 1;
    plan.offload_optimizer = OffloadTarget::kNvme;
    plan.offload_activations = OffloadTarget::kHost;
    plan.stream_optimizer = stream;
    auto program = Compile(TinyGpt(), plan);
    ASSERT_TRUE(program.has_value());
    const Simulation simulation = Predict(plan);
    const auto predicted = CopiedIn(simulation.timeline, 1);
    EXPECT_EQ(CopiedIn(TrainTiny(TinyGpt(), plan).timeline, 1), predicted);
    // Every parameter once, on one of two ranks: 4 bytes of gradient and parameter, or 8 of
    // moments, each way. The disk holds two moments and, if the host updates, the master.
    std::int64_t parameters = 0;
    for (const Bucket& bucket : program->ranks[0].buckets) parameters += bucket.used;
    EXPECT_EQ(predicted.at(Queue::kNvme), parameters * (stream ? 16 : 24));
    CopiedBytes moved;
    for (const RankProgram& rank : program->ranks) {
      const CopiedBytes of_rank = CopiedBytesOf(*program, rank);
      moved.from_device += of_rank.from_device;
      moved.read += of_rank.read;
      moved.written += of_rank.written;
    }
    EXPECT_EQ(moved.read, parameters * (stream ? 8 : 12));
    EXPECT_EQ(moved.written, moved.read);
    EXPECT_EQ(moved.from_device, predicted.at(Queue::kD2h));
    // 8 micro-batches, 4 on each rank, for layers 1 to 3.
    EXPECT_EQ(moved.from_device, parameters * (stream ? 8 : 4) + 8 * 3 * 25'088);
  }
}

// Each micro-batch's sum is copied out once; values fetched for adding are not copied out again. 8
// micro-batches in total and, if the device updates, each shard once more with two moments. Nothing
// else is copied out.
TEST(GradientOffload, MovesThePredictedBytes) {
  for (const bool stream : {false, true}) {
    Plan plan = TinyPlan();
    plan.dp = 2;
    plan.zero_stage = 2;
    plan.clip_norm = 0.5;
    plan.offload_optimizer = plan.offload_gradients = OffloadTarget::kHost;
    plan.stream_optimizer = stream;
    const Simulation simulation = Predict(plan);
    const auto predicted = CopiedIn(simulation.timeline, 1);
    const Trained trained = TrainTiny(TinyGpt(), plan);
    EXPECT_EQ(CopiedIn(trained.timeline, 1), predicted);
    auto program = Compile(TinyGpt(), plan);
    std::int64_t used = 0, padded = 0;
    for (const Bucket& bucket : program->ranks[0].buckets) {
      used += bucket.used;
      padded += bucket.elements;
    }
    // 4 micro-batches on each of two ranks, which hold one half each. The norm goes in and, for
    // updates on the host, out.
    const std::int64_t scalars = stream ? 0 : 2 * 4;
    EXPECT_EQ(predicted.at(Queue::kD2h), 4 * padded * 4 + (stream ? 8 * used : scalars));
  }
}

// The device still holds the token table's gradient, which the head starts and the embedding
// completes, and one layer's gradient of 34,176 bytes.
TEST(GradientOffload, FreesTheDevice) {
  Plan plan = TinyPlan();
  plan.offload_optimizer = OffloadTarget::kHost;
  const std::int64_t here = PeakOf(plan, Space::kDevice);
  const std::int64_t pinned = PeakOf(plan, Space::kPinned);
  plan.offload_gradients = OffloadTarget::kHost;
  EXPECT_LT(PeakOf(plan, Space::kDevice), here - 3 * 34'176);
  EXPECT_GT(PeakOf(plan, Space::kPinned), pinned);
}

// One micro-batch on each rank avoids an addition that could differ.
TEST(GradientOffload, ChangesNoBitOfOneMicroBatch) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 2;
  plan.global_batch = 2;
  plan.clip_norm = 0.5;
  plan.loss_scale = 1024;
  const Trained here = TrainTiny(TinyLlama(), plan);
  plan.offload_optimizer = plan.offload_gradients = OffloadTarget::kHost;
  EXPECT_TRUE(SameBits(here, TrainTiny(TinyLlama(), plan)));
  plan.stream_optimizer = true;
  EXPECT_TRUE(SameBits(here, TrainTiny(TinyLlama(), plan)));
  plan.offload_optimizer = OffloadTarget::kNvme;
  plan.offload_parameters = OffloadTarget::kHost;
  plan.zero_stage = 3;
  EXPECT_TRUE(SameBits(here, TrainTiny(TinyLlama(), plan)));
}

TEST(OptimizerOffload, SaysThatTheDiskIsMissing) {
  Plan plan = TinyPlan();
  plan.offload_optimizer = OffloadTarget::kNvme;
  auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value());
  RealClock clock;
  ExecutorOptions options;
  options.nvme.folder = "/no/such/folder";
  auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                 CpuDeviceApi(), clock, options);
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, ErrorCode::kIo);
  EXPECT_THAT(executor.error().message,
              HasSubstr("rank 0: nvme: no file can be made in /no/such/folder"));
}

}  // namespace
}  // namespace foretrain

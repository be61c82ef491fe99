#include "tests/runtime/executor/faults/mixed_program.h"

#include <gtest/gtest.h>

#include "runtime/executor/executor.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 5;

struct Jitter : FaultInjector {
  explicit Jitter(std::uint64_t the_seed) : seed(the_seed) {}
  Fault At(int rank, std::int64_t step, std::int32_t op) override {
    const std::uint64_t mixed =
        (seed * 1000003 + static_cast<std::uint64_t>(rank * 131 + step * 17 + op)) *
        0x9e3779b97f4a7c15U;
    Fault fault{Fault::Kind::kDelay};
    fault.delay_ns = static_cast<std::int64_t>(mixed >> 43);  // up to 2 ms
    return fault;
  }
  std::uint64_t seed;
};

}  // namespace

std::shared_ptr<const Program> MixedProgram(int ranks) {
  ProgramBuilder builder(ranks);
  constexpr Access kR = Access::kRead;
  constexpr Access kW = Access::kWrite;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto ids = builder.Buffer(rank, 8, false, Category::kStaging);
    const auto x = builder.Buffer(rank, 16 * ranks, true);
    const auto shard = builder.Buffer(rank, 16, true);
    const auto got = builder.Buffer(rank, 16, true);
    builder.Add(rank, OpKind::kLoadBatch, Queue::kH2d, {{ids, kW}, {-1}}, "load");
    builder.Opaque(rank, Queue::kCompute, 0.001, {{ids, kR}, {x, Access::kReadWrite}}, "compute");
    builder.AllReduce(rank, Queue::kReduce, x, 16 * ranks, "grads.bucket2");
    Op& scatter = builder.Add(rank, OpKind::kReduceScatter, Queue::kReduce, {{x, kR}, {shard, kW}},
                              "scatter");
    scatter.group = GroupKind::kWorld;
    scatter.shape.elements = 16 * ranks;
    Op& gather =
        builder.Add(rank, OpKind::kAllGather, Queue::kGather, {{shard, kR}, {x, kW}}, "gather");
    gather.group = GroupKind::kWorld;
    gather.shape.elements = 16 * ranks;
    if (rank + 1 < ranks) {
      Op& send = builder.Add(rank, OpKind::kSend, Queue::kSendNext, {{shard, kR}}, "send");
      send.group = GroupKind::kNext;
      send.shape.elements = 16;
    }
    if (rank > 0) {
      Op& receive = builder.Add(rank, OpKind::kRecv, Queue::kRecvPrev, {{got, kW}}, "recv");
      receive.group = GroupKind::kPrev;
      receive.shape.elements = 16;
    }
    builder.Add(rank, OpKind::kSquaredNorm, Queue::kCompute, {{x, kR}, {got, kW, 0, 1}}, "norm")
        .shape.elements = 16;
    builder.ReadLoss(rank, got);
  }
  return builder.Take();
}

std::vector<float> LossesUnderDelays(std::uint64_t seed) {
  VirtualClock clock;
  Jitter jitter(seed);
  ExecutorOptions options;
  options.faults = &jitter;
  auto executor = Executor::Make(MixedProgram(kRanks), MockDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto* x = reinterpret_cast<float*>((*executor)->Arena(rank).BufferAt(1));
    for (int i = 0; i < 64; ++i) x[i] = 0.1F * static_cast<float>(rank * 64 + i);
  }
  RecordingSink sink;
  CountingBatches batches;
  const auto summary = (*executor)->Run(kSteps, batches, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  std::vector<float> losses(kRanks * kSteps);
  for (const StepScalars& scalars : sink.scalars) {
    losses[static_cast<std::size_t>(scalars.step * kRanks + scalars.rank)] = *scalars.loss;
  }
  return losses;
}

}  // namespace foretrain

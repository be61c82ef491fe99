#include "tests/runtime/executor/forced_durations.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/run/fault_injector.h"
#include "tests/runtime/executor/recording_sink.h"

namespace foretrain {
namespace {

// All compute ops take one time, all CPU ops another; copies take the times given by their caps.
struct Durations : FaultInjector {
  Durations(const Program& made, std::int64_t compute, std::int64_t cpu) {
    for (const RankProgram& rank : made.ranks) {
      auto& of_rank = delays.emplace_back();
      for (const OpRef ref : OpRefs(made, rank)) {
        const Queue queue = OpAt(made, rank, ref).queue;
        of_rank.push_back(queue == Queue::kCompute ? compute : queue == Queue::kCpu ? cpu : 0);
      }
    }
  }
  Fault At(int rank, std::int64_t /*step*/, std::int32_t op) override {
    Fault fault{Fault::Kind::kDelay};
    fault.delay_ns = delays[static_cast<std::size_t>(rank)][static_cast<std::size_t>(op)];
    if (fault.delay_ns == 0) fault.kind = Fault::Kind::kNone;
    return fault;
  }
  std::vector<std::vector<std::int64_t>> delays;
};

}  // namespace

Forced RunForced(const Plan& plan, std::int64_t compute, std::int64_t cpu, const CopyCaps& caps,
                 int steps, const ModelSpec& model) {
  Forced forced;
  auto compiled = Compile(model, plan);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  forced.program = std::make_shared<const Program>(*std::move(compiled));
  auto data = TokenData::FromText(TrainingText(), "text", 256, plan);
  Durations durations(*forced.program, compute, cpu);
  VirtualClock clock;
  ExecutorOptions options;
  options.timeout_ns = 3600 * std::int64_t{1'000'000'000};
  options.faults = &durations;
  options.copy_caps = caps;
  auto executor = Executor::Make(forced.program, CpuDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  RecordingSink sink;
  auto summary = (*executor)->Run(steps, **data, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  forced.timeline = std::move(sink.timeline);
  const StepWindow& last = forced.timeline.steps.back();
  forced.step_ns = last.end_ns - last.start_ns;
  forced.compute_ns = forced.BusyIn(Queue::kCompute, steps - 1);
  return forced;
}

}  // namespace foretrain

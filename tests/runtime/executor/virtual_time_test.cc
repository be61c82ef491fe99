// Ranks that take turns on one device: their emulated times are the schedule's.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/executor/executor.h"
#include "sim/compare/emulate.h"
#include "tests/golden_schedules.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/training.h"
#include "tests/support/opaque.h"

namespace foretrain {
namespace {

// Number of compute ops that began before another one ended on any rank, up to the difference of
// their clocks.
int Overlaps(const Timeline& timeline, std::int64_t clocks_apart_ns) {
  std::vector<const Span*> compute;
  for (const Span& span : timeline.spans) {
    if (span.queue == Queue::kCompute) compute.push_back(&span);
  }
  EXPECT_FALSE(compute.empty());
  std::sort(compute.begin(), compute.end(), [](const Span* a, const Span* b) {
    return std::pair(a->start_ns, a->end_ns) < std::pair(b->start_ns, b->end_ns);
  });
  int overlaps = 0;
  for (std::size_t i = 1; i < compute.size(); ++i) {
    if (compute[i]->start_ns < compute[i - 1]->end_ns - clocks_apart_ns) ++overlaps;
  }
  return overlaps;
}

// Every op costs nothing, and each rank has its own machine.
ProgramCosts NoCosts(const Program& program) {
  ProgramCosts costs;
  costs.seconds = costs.launch_s = costs.load = costs.measured_threads = costs.error = {0.0};
  costs.provenance.resize(1);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    costs.row_of.emplace_back(static_cast<std::size_t>(program.ranks[rank].op_count), 0);
    costs.domain.push_back(static_cast<std::int32_t>(rank));
    costs.weight.push_back(1.0);
  }
  return costs;
}

// On one device the stages of a pipeline run one after the other; emulated with a device each, they
// take the published times.
TEST(VirtualTime, TurnsGiveTheGoldenTimesOfSchedules) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    if (golden.shape.p > 4) continue;
    SCOPED_TRACE(NameOf(golden));
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    const auto program = std::make_shared<const Program>(
        OpaquePipeline(golden.schedule, golden.shape, times, false));
    VirtualClock clock;
    ExecutorOptions options;
    options.take_turns = true;
    options.timeout_ns = 3'600'000'000'000;
    auto executor = Executor::Make(program, MockDeviceApi(), clock, options);
    ASSERT_TRUE(executor.has_value()) << executor.error().message;
    RecordingSink sink;
    CountingBatches batches;
    auto summary = (*executor)->Run(1, batches, sink);
    ASSERT_TRUE(summary.has_value()) << summary.error().message;
    SortTimeline(sink.timeline);
    EXPECT_EQ(Overlaps(sink.timeline, 0), 0);
    // F + I + W of each micro-batch on each rank.
    const double work = golden.shape.p * golden.shape.m * (1 + golden.input_s + golden.weight_s);
    EXPECT_GE(summary->seconds, work * (1 - 1e-9)) << NameOf(golden);
    const auto emulated = EmulateRanks(*program, NoCosts(*program), sink.timeline, 0,
                                       {.min_steps = 1, .max_steps = 1, .timeline = false});
    ASSERT_TRUE(emulated.has_value()) << emulated.error().message;
    EXPECT_EQ(emulated->covered, 1.0);
    EXPECT_NEAR(emulated->simulation.first_step_s, golden.makespan_s, 1e-6) << NameOf(golden);
  }
}

TEST(VirtualTime, ChangesNoBitAndRunsOneOpAtATime) {
  Plan plan = TinyPlan();
  plan.dp = plan.pp = 2;
  const Trained expected = TrainTiny(TinyGpt(), plan);
  TrainingOptions options;
  options.take_turns = true;
  Later().Reset();
  Later().delays = 7;
  for (const FtDeviceApi* api : {&CpuDeviceApi(), &LaterDeviceApi(CpuDeviceApi())}) {
    options.api = api;
    // On a device, each rank has its own clock offset, known to about 10 us. A thread that loses
    // its processor between two clocks misjudges it, so one of three runs has to show no overlap.
    int overlaps = 1;
    for (int run = 0; run < 3 && overlaps > 0; ++run) {
      const Trained trained = TrainTiny(TinyGpt(), plan, options);
      EXPECT_TRUE(SameBits(expected, trained)) << api->name;
      overlaps = Overlaps(trained.timeline, api == &CpuDeviceApi() ? 0 : 20'000);
    }
    EXPECT_EQ(overlaps, 0) << api->name;
  }
}

TEST(VirtualTime, EmulatesNothingWithoutMeasuredSteps) {
  const Program program = OpaquePipeline(ScheduleKind::k1f1b, {2, 2}, {1, 1, 1}, false);
  const auto emulated = EmulateRanks(program, NoCosts(program), Timeline{}, 0);
  ASSERT_FALSE(emulated.has_value());
  EXPECT_EQ(emulated.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace foretrain

// Golden step times of pipeline schedules in real time: ranks are threads, an op sleeps for its
// time, and the rest is the executor's own time. Prints a table for docs/validation.md; asserts no
// speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "runtime/executor/executor.h"
#include "tests/golden_schedules.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/support/opaque.h"

namespace foretrain {
namespace {

constexpr double kUnitSeconds = 0.01;
constexpr int kRuns = 5;

// Seconds from the first op's start to the last one's end.
double Execute(const GoldenSchedule& golden, int steps) {
  const SlotTimes times{kUnitSeconds, golden.input_s * kUnitSeconds,
                        golden.weight_s * kUnitSeconds};
  RealClock clock;
  auto executor = Executor::Make(
      std::make_shared<const Program>(OpaquePipeline(golden.schedule, golden.shape, times, false)),
      MockDeviceApi(), clock, {});
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  RecordingSink sink;
  CountingBatches batches;
  auto summary = (*executor)->Run(steps, batches, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  std::int64_t begin_ns = sink.timeline.spans.front().start_ns, end_ns = begin_ns;
  for (const Span& span : sink.timeline.spans) {
    begin_ns = std::min(begin_ns, span.start_ns);
    end_ns = std::max(end_ns, span.end_ns);
  }
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

// The fastest of several runs was disturbed least. For overlapping steps, the time of one step is
// the difference between runs.
double BestSeconds(const GoldenSchedule& golden) {
  const bool overlaps = golden.schedule == ScheduleKind::kPipeDream;
  double best_s = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const double one_s = Execute(golden, 1);
    best_s = std::min(best_s, overlaps ? (Execute(golden, 3) - one_s) / 2 : one_s);
  }
  return best_s;
}

TEST(ExecutorClock, PrintsTheGoldenTimesAsItTakesThem) {
  std::vector<GoldenSchedule> goldens = GoldenSchedules();
  goldens.push_back({ScheduleKind::kPipeDream, {4, 8}, 1, 1, 24, 0, {}});
  goldens.push_back({ScheduleKind::kPipeDream, {8, 32}, 1, 1, 96, 0, {}});
  std::printf("| schedule | p, m | v | F, I, W | golden (10 ms) | best of %d | off |\n", kRuns);
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const GoldenSchedule& golden : goldens) {
    const double units = BestSeconds(golden) / kUnitSeconds;
    std::printf("| %s | %d, %d | %d | 1, %g, %g | %g | %.2f | %+.1f %% |\n",
                std::string(Name(golden.schedule)).c_str(), golden.shape.p, golden.shape.m,
                golden.shape.vpp, golden.input_s, golden.weight_s, golden.makespan_s, units,
                100 * (units / golden.makespan_s - 1));
    std::fflush(stdout);
    EXPECT_GT(units, 0);
  }
}

}  // namespace
}  // namespace foretrain

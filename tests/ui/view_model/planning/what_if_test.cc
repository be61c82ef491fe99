#include "ui/view_model/planning/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "sim/memory/peak_memory.h"
#include "tests/ui/planning_samples.h"
#include "ui/view_model/panels/memory_curve.h"
#include "ui/view_model/planning/stage_layout.h"

namespace foretrain::ui {
namespace {

using testing::HasSubstr;

Scenario Sample() { return SampleScenario("gpt2-124m", "1x8xh100-80gb-sxm", 2, 1, 4, 32, 256); }

Result<WhatIfStep> Make(const Scenario& scenario) {
  SystemClock clock;
  return StepMaker(clock).Make({scenario, -1});
}

// 4 stages of 16 micro-batches, forward and backward, followed by the all-reduce over the two
// data-parallel ranks and an update.
TEST(StepMakerTest, DrawsAPassAMicroBatchAndStageAndWhatFollows) {
  const auto step = Make(Sample());
  ASSERT_TRUE(step.has_value()) << step.error().message;
  const Timeline& timeline = step->picture->input.predicted->timeline;
  EXPECT_EQ(timeline.spans.size(), 4U * (16 * 2 + 2));
  EXPECT_EQ(timeline.steps.size(), 4U);
  ASSERT_EQ(step->picture->model.lanes.size(), 4U);
  EXPECT_EQ(step->picture->model.lanes[1].name, "stage 1");
  EXPECT_EQ(step->picture->model.lanes[1].detail, "layers 4-6");  // 12 layers on 4 stages
  std::int64_t end_ns = 0;
  for (const Span& span : timeline.spans) end_ns = std::max(end_ns, span.end_ns);
  EXPECT_NEAR(static_cast<double>(end_ns) * 1e-9, step->stats.step_s, 2e-9);
}

TEST(StepMakerTest, DrawsMemoryWhoseHighestIsThePredictedPeak) {
  for (const ScheduleKind schedule :
       {ScheduleKind::k1f1b, ScheduleKind::kZbH1, ScheduleKind::kGpipe, ScheduleKind::kZbV,
        ScheduleKind::kDualPipeV}) {
    Scenario scenario = Sample();
    scenario.plan.schedule = schedule;
    SCOPED_TRACE(Describe(scenario.plan));
    SystemClock clock;
    StepMaker maker(clock);
    for (int pp = 0; pp < 4; ++pp) {
      const auto step = maker.Make({scenario, pp});
      ASSERT_TRUE(step.has_value()) << step.error().message;
      const Timeline& timeline = step->picture->input.predicted->timeline;
      const MemoryCurve curve(timeline, pp, Space::kDevice);
      std::int64_t highest = 0;
      for (const MemoryLevel& level : curve.levels()) {
        highest = std::max(highest, level.total_bytes);
      }
      const PeakMemory peak = PlannedPeak(scenario.model, scenario.plan, {.pp = pp});
      // Moments without length merge with those of the same nanosecond.
      EXPECT_LE(highest, peak.total);
      EXPECT_GT(static_cast<double>(highest), 0.97 * static_cast<double>(peak.total));
    }
  }
}

// (p - 1) / (m + p - 1) if all stages are alike; here the first and last are longer.
TEST(StepMakerTest, FindsTheBubbleOfAUniformPipeline) {
  Scenario scenario = Sample();
  scenario.model.vocab = 64;
  const auto step = Make(scenario);
  ASSERT_TRUE(step.has_value()) << step.error().message;
  EXPECT_NEAR(step->stats.bubble, 3.0 / (16 + 3), 0.05);
}

TEST(StepMakerTest, RefusesABrokenRuleWithItsSentence) {
  Scenario scenario = Sample();
  scenario.plan.vpp = 2;
  EXPECT_THAT(Make(scenario).error().message, HasSubstr("interleaved"));
  scenario = Sample();
  scenario.plan.dp = 16;
  EXPECT_THAT(Make(scenario).error().message, HasSubstr("64 ranks and the cluster has 8 devices"));
}

TEST(StepMakerTest, SaysWhyOverlappingStepsHaveNoPictureByPasses) {
  Scenario scenario = Sample();
  scenario.plan.schedule = ScheduleKind::kPipeDream2bw;
  const auto step = Make(scenario);
  ASSERT_TRUE(step.has_value()) << step.error().message;
  EXPECT_EQ(step->picture, nullptr);
  EXPECT_THAT(step->note, HasSubstr("overlap"));
  EXPECT_GT(step->stats.step_s, 0);
}

TEST(StepMakerTest, GivesTheSameWhateverItMadeBefore) {
  Scenario scenario = Sample();
  SystemClock clock;
  StepMaker maker(clock);
  Scenario other = scenario;
  other.plan.recompute = RecomputeKind::kFull;
  other.plan.zero_stage = 1;
  ASSERT_TRUE(maker.Make({other, -1}).has_value());
  const auto after = maker.Make({scenario, -1});
  EXPECT_DOUBLE_EQ(after->stats.step_s, Make(scenario)->stats.step_s);
}

TEST(SimulateStepTest, StopsWhereNobodyWantsItAnyMore) {
  for (const int last : {1, 2, 3}) {  // after compiling, before playing, while playing
    int asked = 0;
    const auto step = SimulateStep({Sample(), -1}, [&asked, last] { return ++asked >= last; });
    ASSERT_FALSE(step.has_value());
    EXPECT_EQ(step.error().code, ErrorCode::kAborted);
    EXPECT_EQ(asked, last);
  }
}

// Compares the forecast by passes with the whole program.
TEST(SimulateStepTest, EndsNearWhatPassesSay) {
  for (const int zero : {0, 1, 3}) {
    for (const ScheduleKind schedule : {ScheduleKind::k1f1b, ScheduleKind::kZbH1}) {
      Scenario scenario = SampleScenario("gpt2-124m", "1x8xh100-80gb-sxm", 4, 1, 2, 128, 1024);
      scenario.plan.micro_batch = 4;
      scenario.plan.zero_stage = zero;
      scenario.plan.schedule = schedule;
      SCOPED_TRACE(Describe(scenario.plan));
      const auto passes = Make(scenario);
      const auto ops = SimulateStep({scenario, -1});
      ASSERT_TRUE(passes.has_value() && ops.has_value());
      EXPECT_NEAR(passes->stats.step_s, ops->step_s, 0.12 * ops->step_s);
      EXPECT_EQ(ops->picture->stages, (std::vector<int>{0, 1}));
      EXPECT_EQ(ops->picture->model.lanes[1].name, "stage 1");
    }
  }
}

TEST(WhatIfTest, KeepsTheLastLegalStepWhileAnIllegalOneIsAskedFor) {
  SystemClock clock;
  WhatIf what_if(clock);
  const auto settle = [&] {
    while (what_if.IsBusy()) {
      what_if.Poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  what_if.Ask({Sample(), -1});
  settle();
  ASSERT_NE(what_if.shown(), nullptr);
  EXPECT_TRUE(what_if.problem().empty());
  ASSERT_NE(what_if.simulated(), nullptr);
  const double before = what_if.shown()->stats.step_s;
  Scenario illegal = Sample();
  illegal.plan.tp = 5;  // 12 heads
  what_if.Ask({illegal, -1});
  settle();
  EXPECT_FALSE(what_if.problem().empty());
  EXPECT_EQ(what_if.shown()->stats.step_s, before);
  what_if.Ask({Sample(), -1});
  settle();
  EXPECT_TRUE(what_if.problem().empty());
}

// The frame that shows the answer must not share the processor with the simulation.
TEST(WhatIfTest, BeginsToSimulateOpByOpWithThePollAfterTheAnswer) {
  SystemClock clock;
  WhatIf what_if(clock);
  what_if.Ask({Sample(), -1});
  what_if.Await(std::chrono::hours(1));
  EXPECT_TRUE(what_if.Poll());
  ASSERT_NE(what_if.shown(), nullptr);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_TRUE(what_if.IsBusy());  // so that another frame follows
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(what_if.Poll());
  EXPECT_EQ(what_if.simulated(), nullptr);
  while (what_if.IsBusy()) {
    what_if.Poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(what_if.simulated(), nullptr);
}

TEST(NumbersOfStepTest, ShowChangesAgainstThePinnedPlan) {
  StepStats now, pinned;
  now.step_s = 1.1;
  pinned.step_s = 1.0;
  now.bubble = 0.25;
  pinned.bubble = 0.20;
  now.device.tensors = std::int64_t{90} << 30;
  pinned.device.tensors = std::int64_t{60} << 30;
  now.device_bytes = pinned.device_bytes = std::int64_t{80} << 30;
  const auto of = [](const std::vector<WhatIfNumber>& numbers, std::string_view name) {
    return *std::find_if(numbers.begin(), numbers.end(),
                         [name](const WhatIfNumber& n) { return n.name == name; });
  };
  const auto numbers = NumbersOfStep(now, &pinned);
  EXPECT_EQ(of(numbers, "step time").change, "+10.0 %");
  EXPECT_EQ(of(numbers, "bubble").change, "+5.0 pt");
  EXPECT_EQ(of(numbers, "peak memory").change, "+50.0 %");
  EXPECT_TRUE(of(numbers, "peak memory").doubtful);
  EXPECT_EQ(of(numbers, "headroom").detail, "does not fit");
  EXPECT_TRUE(of(NumbersOfStep(now, nullptr), "step time").change.empty());
}

TEST(StageLayoutTest, ShowsSixtyFourStagesAtOnceAndFewOnesHigh) {
  Scenario scenario = SampleScenario("gpt3-175b", "64x8xa100-80gb-sxm", 1, 8, 48, 96, 2048);
  const auto many = Make(scenario);
  ASSERT_TRUE(many.has_value()) << many.error().message;
  const Box window{300, 100, 1600, 900};
  const Layout layout = MakeStageLayout(many->picture->model, window, 1, 0, true);
  EXPECT_EQ(layout.lane_boxes.size(), 48U);
  EXPECT_EQ(layout.max_scroll, 0);
  EXPECT_FALSE(layout.memory.IsEmpty());
  for (const LaneBox& lane : layout.lane_boxes) {
    ASSERT_FALSE(lane.strips.empty());
    EXPECT_GE(lane.strips[0].box.y0, layout.lanes.y0);
    EXPECT_LE(lane.strips[0].box.y1, layout.lanes.y1);
    EXPECT_GE(lane.strips[0].box.Height(), 5);
  }
  const Layout small = MakeStageLayout(many->picture->model, {0, 0, 640, 280}, 1, 0, true);
  EXPECT_TRUE(small.memory.IsEmpty());
  EXPECT_GT(small.max_scroll, 0);
}

}  // namespace
}  // namespace foretrain::ui

// A plan whose schedule is a list of passes: exports of all schedules compile to the programs that
// they come from, and any order that works compiles, is verified and can be forecast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/plan/plan_json.h"
#include "sim/config/schedule/check_schedule.h"
#include "sim/config/schedule/schedule_csv.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/pass_forecast.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "sim/program/schedules/schedule.h"
#include "tests/golden_schedules.h"
#include "tests/sim/models.h"
#include "tests/sim/random_schedule.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// 16 layers, so that each shape has a layer for each stage.
ModelSpec DeepModel() {
  ModelSpec model = SmallGpt();
  model.layers = 16;
  return model;
}

Plan PlanOf(ScheduleKind schedule, const PipelineShape& shape) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = shape.m;
  plan.pp = shape.p;
  plan.schedule = schedule;
  plan.vpp = shape.vpp;
  return plan;
}

// The same plan with the slots of a file that was written from its schedule.
Plan Exported(const Plan& plan) {
  const auto draft = DraftOf(plan);
  EXPECT_TRUE(draft.has_value()) << draft.error().message;
  auto slots = SlotOrder::FromCsv(ToCsv(*draft), "exported.csv");
  EXPECT_TRUE(slots.has_value()) << slots.error().message;
  Plan custom = plan;
  custom.schedule = ScheduleKind::kCustom;
  custom.vpp = 1;
  if (slots) custom.slots = *std::move(slots);
  return custom;
}

CostModel Costs() {
  const Catalogue catalogue = BuiltInCatalogue().value();
  const ClusterSpec cluster = ParseCluster("1x8xa100-80gb-sxm", catalogue).value();
  return CostModel::Make(cluster, DeriveProfile(cluster)).value();
}

TEST(CustomSchedule, OfAnExportIsTheProgramOfItsSchedule) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    if (golden.shape.p > 4 || golden.input_s != 1) continue;
    SCOPED_TRACE(NameOf(golden));
    const Plan plan = PlanOf(golden.schedule, golden.shape);
    const Plan custom = Exported(plan);
    for (int rank = 0; rank < golden.shape.p; ++rank) {
      EXPECT_EQ(custom.slots.SlotsOf(rank), MakeSlots(plan.schedule, golden.shape, rank));
    }
    const auto wanted = Compile(DeepModel(), plan);
    const auto made = Compile(DeepModel(), custom);
    ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->hash, wanted->hash);
  }
}

// Makespan and live activations of the check are the published ones: its units are passes of one
// stage, those of the golden rows a rank's share of F = 1.
TEST(CustomSchedule, IsCheckedToThePublishedFigures) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    if (golden.input_s != 1) continue;
    SCOPED_TRACE(NameOf(golden));
    const auto draft = DraftOf(PlanOf(golden.schedule, golden.shape));
    ASSERT_TRUE(draft.has_value()) << draft.error().message;
    const ScheduleReport report = CheckSchedule(*draft);
    ASSERT_TRUE(report.Works()) << report.findings.front().text;
    const int share = Placement(golden.schedule, golden.shape.p, golden.shape.vpp).ChunksOfShare();
    EXPECT_NEAR(report.makespan / share, golden.makespan_s, 1e-9);
    for (std::size_t r = 0; r < golden.peaks.size(); ++r) {
      EXPECT_DOUBLE_EQ(report.peak_live[r] / static_cast<double>(share), golden.peaks[r]);
    }
    const double work = 3.0 * golden.shape.m * share * golden.shape.p;
    EXPECT_NEAR(report.bubble, 1 - work / (report.makespan * golden.shape.p), 1e-12);
  }
}

TEST(CustomSchedule, IsForecastLikeTheScheduleItComesFrom) {
  const CostModel costs = Costs();
  const ModelSpec model = DeepModel();
  for (const ScheduleKind schedule :
       {ScheduleKind::k1f1b, ScheduleKind::kInterleaved, ScheduleKind::kZbH1, ScheduleKind::kZbV,
        ScheduleKind::kDualPipe, ScheduleKind::kDualPipeV}) {
    SCOPED_TRACE(Name(schedule));
    const Plan plan = PlanOf(schedule, {4, 8, schedule == ScheduleKind::kInterleaved ? 2 : 1});
    const Plan custom = Exported(plan);
    const auto wanted = MakeForecast(model, plan, costs), made = MakeForecast(model, custom, costs);
    ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_DOUBLE_EQ(made->simulation.step_s, wanted->simulation.step_s);
    PassForecaster forecaster(model, costs);
    const auto wanted_passes = forecaster.Forecast(plan), passes = forecaster.Forecast(custom);
    ASSERT_TRUE(wanted_passes.has_value() && passes.has_value());
    EXPECT_DOUBLE_EQ(passes->step_s, wanted_passes->step_s);
    EXPECT_EQ(passes->tensors.total, wanted_passes->tensors.total);
    EXPECT_NEAR(passes->estimate.step_s, wanted_passes->estimate.step_s,
                1e-9 * wanted_passes->estimate.step_s);
  }
}

TEST(CustomSchedule, IsNotThatOfStepsThatOverlap) {
  const auto draft = DraftOf(PlanOf(ScheduleKind::kPipeDream2bw, {2, 4}));
  ASSERT_FALSE(draft.has_value());
  EXPECT_EQ(draft.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(draft.error().message, HasSubstr("pipedream-2bw: its steps overlap"));
}

// Verify finds every way in which the transfers of an order could wait for each other.
TEST(CustomSchedule, CompilesInAnyOrderThatWorks) {
  std::mt19937 random(7);
  const ModelSpec model = DeepModel();
  for (int i = 0; i < 60; ++i) {
    const ScheduleDraft draft = RandomSchedule(random, 4, 8);
    SCOPED_TRACE(ToCsv(draft));
    auto slots = SlotOrder::Make(draft, "random.csv");
    ASSERT_TRUE(slots.has_value()) << slots.error().message;
    Plan plan = PlanOf(ScheduleKind::kCustom, {slots->ranks(), slots->micro_batches()});
    plan.slots = *slots;
    const auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    // The fullest rank's memory in closed form is the program's.
    for (const RankProgram& rank : program->ranks) {
      EXPECT_EQ(PlannedPeak(model, plan, rank.Coordinates()).total, LinkedPeak(rank).total);
    }
  }
}

TEST(CustomSchedule, IsStoredInAPlanFileWithItsSlots) {
  const Plan plan = Exported(PlanOf(ScheduleKind::kZbH1, {2, 4}));
  const std::string text = ToJson(plan);
  EXPECT_THAT(text, HasSubstr("\"schedule\": \"custom\""));
  EXPECT_THAT(text, HasSubstr("\"0F0,0F1,0I0,0W0,0F2,0I1,0W1,0F3,0I2,0W2,0I3,0W3\""));
  const auto again = PlanFromJson(text, "plan.json");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, plan);
  std::string damaged = text;
  damaged.replace(damaged.find("0I0,0W0"), 7, "0W0,0I0");
  const auto refused = PlanFromJson(damaged, "plan.json");
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("plan.json: schedule_slots"));
  EXPECT_THAT(refused.error().message, HasSubstr("comes before"));
}

}  // namespace
}  // namespace foretrain

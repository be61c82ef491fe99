#include "ui/view_model/planning/plan_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/ui/planning_samples.h"

namespace foretrain::ui {
namespace {

// Three plans: 10 s in 60 GiB, 12 s in 30 GiB, 15 s in 70 GiB, on a device of 80 GiB. The first two
// form the front.
FoundPlans Three() {
  PosixFileSystem files;
  PlanSetup setup = SampleSetup();
  FoundPlans found;
  found.request = std::make_shared<const PlanRequest>(
      *Resolve(setup, *BuiltInCatalogue(), std::nullopt, files));
  const auto add = [&](double step_s, std::int64_t gib, int tp, bool pareto) {
    FoundPlan plan;
    plan.ranked.step_s = step_s;
    plan.ranked.low_s = step_s * 0.9;
    plan.ranked.high_s = step_s * 1.1;
    plan.ranked.device.tensors = gib << 30;
    plan.ranked.plan.tp = tp;
    plan.ranked.pareto = pareto;
    plan.tokens_per_s = 120.0 / step_s;
    plan.mfu = 5.0 / step_s;
    found.plans.push_back(plan);
  };
  add(10, 60, 1, true);
  add(12, 30, 2, true);
  add(15, 70, 4, false);
  return found;
}

TEST(PlanList, SortsByAnyColumnEitherWay) {
  const FoundPlans found = Three();
  using Order = std::vector<std::size_t>;
  EXPECT_EQ(Sorted(found, {PlanColumn::kStep, false}), (Order{0, 1, 2}));
  EXPECT_EQ(Sorted(found, {PlanColumn::kStep, true}), (Order{2, 1, 0}));
  EXPECT_EQ(Sorted(found, {PlanColumn::kMemory, false}), (Order{1, 0, 2}));
  EXPECT_EQ(Sorted(found, {PlanColumn::kHeadroom, false}), (Order{2, 0, 1}));
  EXPECT_EQ(Sorted(found, {PlanColumn::kPlan, false}), (Order{0, 1, 2}));
}

TEST(PlanList, WritesCellsWithUnits) {
  const FoundPlans found = Three();
  EXPECT_EQ(Cell(found, 0, PlanColumn::kStep), "10.0 s");
  EXPECT_EQ(Cell(found, 0, PlanColumn::kThroughput), "12.0");
  EXPECT_EQ(Cell(found, 0, PlanColumn::kMfu), "50.0 %");
  EXPECT_EQ(Cell(found, 1, PlanColumn::kMemory), "30.0 GiB");
  EXPECT_EQ(Cell(found, 1, PlanColumn::kHeadroom), "62.5 %");  // 50 of 80 GiB
  EXPECT_EQ(Cell(found, 1, PlanColumn::kHost), "");
}

// 10^9 tokens at 12 tokens/s take 23,148 hours, and at 10 tokens/s on two devices 2 x 27,778.
TEST(PlanList, TellsWhatTokensCostIfAPriceIsGiven) {
  const FoundPlans found = Three();
  EXPECT_EQ(Cell(found, 0, PlanColumn::kCost), "");
  EXPECT_EQ(Cell(found, 0, PlanColumn::kCost, 2), "46.3 k");
  EXPECT_NEAR(CostOfTokens(found.plans[1], 2), 4e9 / (10 * 3600.0), 1e-6);
  EXPECT_NEAR(CostOfTokens(found.plans[1], 2), 2 * 2 * 27'777.78, 0.1);
  using Order = std::vector<std::size_t>;
  EXPECT_EQ(Sorted(found, {PlanColumn::kCost, true}), (Order{2, 1, 0}));
  const KeptPlan first{found.request, found.plans[0]}, second{found.request, found.plans[1]};
  const auto names = [](const PlanComparison& comparison) {
    std::vector<std::string> out;
    for (const ComparedLine& line : comparison.metrics) out.push_back(line.name);
    return out;
  };
  EXPECT_THAT(names(ComparePlans(first, second, 2)), testing::Contains("cost of 10^9 tokens"));
  EXPECT_THAT(names(ComparePlans(first, second)),
              testing::Not(testing::Contains("cost of 10^9 tokens")));
}

TEST(MeasuredPlansTest, AreAllMeasuredRunsOfTheStoreEachWithItsForecast) {
  const auto run = [](RunId id, RunKind kind, double rate, double bytes) {
    RunInfo info;
    info.id = id;
    info.kind = kind;
    info.label = "dp2";
    info.metrics = {{-1, -1, "tokens_per_s", rate}, {-1, -1, "peak_device_bytes", bytes}};
    return info;
  };
  std::vector<RunInfo> runs = {
      run(1, RunKind::kPredicted, 18, 1100), run(2, RunKind::kMeasured, 20, 1000),
      run(3, RunKind::kMeasured, 30, 2000), run(4, RunKind::kMeasured, 40, 3000),
      run(5, RunKind::kMeasured, 50, 4000)};
  runs[1].forecast = 1;
  runs[3].metrics.clear();  // recorded without spans or memory: no position in the plot
  const auto plans = MeasuredPlansOf(runs, {{2, "a"}, {3, "b"}, {4, "a"}});  // run 5's is unknown
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].label, "run 2: dp2");
  EXPECT_EQ(plans[0].model, "a");
  EXPECT_EQ(plans[0].tokens_per_s, 20);
  EXPECT_EQ(plans[0].memory_bytes, 1000);
  EXPECT_EQ(plans[0].forecast_tokens_per_s, 18);
  EXPECT_EQ(plans[0].forecast_memory_bytes, 1100);
  EXPECT_EQ(plans[1].label, "run 3: dp2");
  EXPECT_EQ(plans[1].forecast_tokens_per_s, 0);
}

TEST(PlanScatterTest, HoldsAllPlansAndRunsOfTheSameModel) {
  const FoundPlans found = Three();
  const MeasuredPlan run{"run 2", "gpt2-124m",           20.0, std::int64_t{10} << 30,
                         18.0,    std::int64_t{11} << 30};
  const MeasuredPlan other{"run 3", "llama3-8b", 900.0, std::int64_t{70} << 30, 0, 0};
  const PlanScatter scatter = ScatterOf(found, {run, other});
  ASSERT_EQ(scatter.measured.size(), 1U);
  EXPECT_EQ(scatter.front, (std::vector<std::size_t>{1, 0}));
  const auto inside = [](double v) { return v > 0 && v < 1; };
  for (const PlanPoint& point : scatter.points) {
    EXPECT_TRUE(inside(scatter.X(point.memory_bytes)));
    EXPECT_TRUE(inside(scatter.Y(point.tokens_per_s)));
  }
  EXPECT_TRUE(inside(scatter.X(static_cast<double>(run.memory_bytes))));
  EXPECT_TRUE(inside(scatter.Y(run.tokens_per_s)));
  EXPECT_LT(scatter.high_rate, 100);  // runs of other models do not count
}

TEST(PlanScatterTest, FindsThePlanUnderAPointAndNoneFarFromAll) {
  const FoundPlans found = Three();
  const PlanScatter scatter = ScatterOf(found, {});
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    const double x = scatter.X(scatter.points[i].memory_bytes) + 0.002;
    const double y = scatter.Y(scatter.points[i].tokens_per_s);
    EXPECT_EQ(NearestPlan(scatter, x, y, 2.0, 0.03), i);
  }
  EXPECT_EQ(NearestPlan(scatter, 0.5, 0.02, 2.0, 0.01), std::nullopt);
}

TEST(PlanScatterTest, DrawsNothingOfNoPlans) {
  FoundPlans found = Three();
  found.plans.clear();
  const PlanScatter scatter = ScatterOf(found, {});
  EXPECT_TRUE(scatter.points.empty());
  EXPECT_GT(scatter.high_memory, scatter.low_memory);
  EXPECT_GT(scatter.high_rate, scatter.low_rate);
}

TEST(PlanComparisonTest, ShowsMetricsWithChangesAndFieldsThatDiffer) {
  const FoundPlans found = Three();
  const PlanComparison comparison =
      ComparePlans({found.request, found.plans[0]}, {found.request, found.plans[1]});
  ASSERT_FALSE(comparison.metrics.empty());
  EXPECT_EQ(comparison.metrics[0].name, "step time");
  EXPECT_EQ(comparison.metrics[0].change, "+20.0 %");
  EXPECT_EQ(comparison.metrics[0].sign, 1);
  ASSERT_EQ(comparison.fields.size(), 1U);  // same model and machine; only tp differs
  EXPECT_EQ(comparison.fields[0].name, "tp");
  EXPECT_EQ(comparison.fields[0].first, "1");
  EXPECT_EQ(comparison.fields[0].second, "2");
}

TEST(FindPlansTest, AddsStatsAndTheMemoryOfEachStage) {
  PosixFileSystem files;
  const auto request = Resolve(SampleSetup(), *BuiltInCatalogue(), std::nullopt, files);
  ASSERT_TRUE(request.has_value()) << request.error().message;
  SystemClock clock;
  SearchOptions options;
  options.ranks = 4;
  options.simulated = 1;
  const auto found = FindPlans(*request, options, clock);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  ASSERT_FALSE(found->plans.empty());
  for (const FoundPlan& plan : found->plans) {
    // 16 samples of 256 tokens a step.
    EXPECT_DOUBLE_EQ(plan.tokens_per_s, 16 * 256 / plan.ranked.step_s);
    ASSERT_EQ(plan.stages.size(), static_cast<std::size_t>(plan.ranked.plan.pp));
    std::int64_t fullest = 0;
    for (const StageMemory& stage : plan.stages) {
      fullest = std::max(fullest, stage.tensors.total);
    }
    EXPECT_EQ(fullest, plan.ranked.memory.peak.total);
  }
  EXPECT_GT(found->pruned + found->evaluated, 0);
}

}  // namespace
}  // namespace foretrain::ui

#include "sim/learn/traced_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "sim/cost/cost_model.h"
#include "sim/forecast/forecast.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

Plan PlanOf(int dp, int tp, int pp = 1) {
  Plan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = std::int64_t{4} * dp;
  return plan;
}

Forecast ForecastOf(const DeviceProfile& profile, const Plan& plan, int nodes = 1) {
  const auto costs = CostModel::Make(GpuCluster(nodes, 8), profile);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  auto forecast = MakeForecast(SmallGpt(), plan, *costs);
  EXPECT_TRUE(forecast.has_value()) << forecast.error().message;
  return *std::move(forecast);
}

// The machine as it is: products, memory and attention each have another speed than assumed.
DeviceProfile TrueProfile() {
  DeviceProfile profile = IdealProfile();
  profile.rates.gemm_flop_per_s = {3e9, Provenance::kDefault};
  profile.rates.memory_bytes_per_s = {2e10, Provenance::kDefault};
  profile.rates.attention_forward_flop_per_s = {1e9, Provenance::kDefault};
  profile.rates.attention_backward_flop_per_s = {0.7e9, Provenance::kDefault};
  return profile;
}

DeviceProfile With(const TracedPoints& points) {
  DeviceProfile profile = IdealProfile();
  profile.rates.gemm_flop_per_s = {1e9, Provenance::kDefault};
  for (const ProfilePoint& point : points.points) AddPoint(profile, point);
  return profile;
}

// The spans of one rank alone.
Timeline OfRank(Timeline timeline, int rank) {
  const auto other = [rank](const auto& of) { return of.rank != rank; };
  std::erase_if(timeline.spans, other);
  std::erase_if(timeline.steps, other);
  return timeline;
}

TEST(TracedPoints, GiveTheForecastOfThePlanThatWasTraced) {
  const Forecast truth = ForecastOf(TrueProfile(), PlanOf(1, 2));
  const TracedPoints points = PointsOfTrace(truth.program, OfRank(truth.simulation.timeline, 0));
  EXPECT_GT(points.timed, 20);
  EXPECT_EQ(points.fused, 0);
  const Forecast again = ForecastOf(With(points), PlanOf(1, 2));
  // Spans are whole nanoseconds.
  EXPECT_NEAR(again.simulation.step_s, truth.simulation.step_s, 0.002 * truth.simulation.step_s);
}

// One rank of two gives the ops of 64: the shapes are the same, the communication is another.
TEST(TracedPoints, OfOneRankGiveTheForecastOf64) {
  const Forecast traced = ForecastOf(TrueProfile(), PlanOf(1, 2));
  const DeviceProfile learned =
      With(PointsOfTrace(traced.program, OfRank(traced.simulation.timeline, 1)));
  const Plan plan = PlanOf(32, 2);
  const double truth_s = ForecastOf(TrueProfile(), plan, 8).simulation.step_s;
  DeviceProfile assumed = IdealProfile();
  assumed.rates.gemm_flop_per_s = {1e9, Provenance::kDefault};
  const double assumed_s = ForecastOf(assumed, plan, 8).simulation.step_s;
  EXPECT_GT(std::abs(assumed_s / truth_s - 1), 0.3) << "the test would say nothing";
  EXPECT_NEAR(ForecastOf(learned, plan, 8).simulation.step_s, truth_s, 0.02 * truth_s);
}

// The activation has no kernel of its own in this trace: the product before it does its work.
TEST(TracedPoints, GiveOpsWithoutAKernelNoTime) {
  const Forecast truth = ForecastOf(TrueProfile(), PlanOf(1, 1));
  Timeline fused = truth.simulation.timeline;
  std::set<OpId> activations;
  std::optional<ProfilePoint> key;
  for (const RankProgram& rank : truth.program.ranks) {
    for (const OpRef& ref : OpRefs(truth.program, rank)) {
      const Op& op = OpAt(truth.program, rank, ref);
      if (op.kind != OpKind::kGeluForward) continue;
      activations.insert(IdOf(rank, ref));
      key = PointOf(op);
    }
  }
  ASSERT_TRUE(key.has_value());
  std::erase_if(fused.spans, [&](const Span& span) { return activations.contains(span.op); });
  const TracedPoints points = PointsOfTrace(truth.program, fused);
  EXPECT_EQ(points.fused, 1);
  const auto point = std::find_if(points.points.begin(), points.points.end(),
                                  [&](const ProfilePoint& of) { return SameKey(of, *key); });
  ASSERT_NE(point, points.points.end());
  EXPECT_EQ(point->seconds, kFusedSeconds);
}

// The first stage has no head: its products have no points.
TEST(TracedPoints, LeaveOutOpsOfRanksThatWereNotTraced) {
  const Forecast truth = ForecastOf(TrueProfile(), PlanOf(1, 1, 2));
  const auto both = PointsOfTrace(truth.program, truth.simulation.timeline);
  const auto first = PointsOfTrace(truth.program, OfRank(truth.simulation.timeline, 0));
  EXPECT_LT(first.points.size(), both.points.size());
  EXPECT_EQ(first.fused, 0);
}

// With collectives the communication of the same plan comes back too, though the links are slower
// than assumed and members arrive late, which a forecast adds to a point.
TEST(TracedPoints, OfCollectivesAreFittedToWhatAForecastAdds) {
  DeviceProfile truth = TrueProfile();
  truth.rates.link_bytes_per_s = {1e6, Provenance::kDefault};
  truth.rates.member_skew_s = {1e-5, Provenance::kDefault};
  const Forecast traced = ForecastOf(truth, PlanOf(1, 2));
  const ClusterSpec cluster = GpuCluster(1, 8);
  const TracedPointsOptions options{.collectives = CollectiveSpans::kFromLast, .cluster = &cluster};
  const TracedPoints measured = PointsOfTrace(traced.program, traced.simulation.timeline, options);
  DeviceProfile profile = IdealProfile();
  profile.rates.member_skew_s = {1e-5, Provenance::kDefault};
  std::vector<ProfilePoint> points = measured.points;
  for (int round = 0; round < 3; ++round) {
    for (const ProfilePoint& point : points) AddPoint(profile, point);
    const Forecast fitted = ForecastOf(profile, PlanOf(1, 2));
    if (round == 2) {
      EXPECT_NEAR(fitted.simulation.step_s, traced.simulation.step_s,
                  0.02 * traced.simulation.step_s);
    }
    FitPoints(measured.points, PointsOfTrace(fitted.program, fitted.simulation.timeline, options),
              points);
  }
  const auto collectives = std::count_if(
      points.begin(), points.end(), [](const auto& point) { return IsCollective(point.kind); });
  EXPECT_GT(collectives, 0);
}

// Rank 1 arrives 30 us after rank 0 at each collective, which the spans of rank 0 contain. In a
// trace whose calls were not matched they tell nothing, nor does one rank alone.
TEST(TracedPoints, OfCollectivesAreFromTheLastArrival) {
  DeviceProfile truth = TrueProfile();
  truth.rates.link_bytes_per_s = {1e5, Provenance::kDefault};
  const Forecast traced = ForecastOf(truth, PlanOf(1, 2));
  const ClusterSpec cluster = GpuCluster(1, 8);
  const auto points_of = [&](const Timeline& timeline, CollectiveSpans how) {
    std::vector<ProfilePoint> found;
    for (const ProfilePoint& point :
         PointsOfTrace(traced.program, timeline, {.collectives = how, .cluster = &cluster})
             .points) {
      if (IsCollective(point.kind)) found.push_back(point);
    }
    return found;
  };
  const std::vector<ProfilePoint> wire =
      points_of(traced.simulation.timeline, CollectiveSpans::kFromLast);
  ASSERT_FALSE(wire.empty());
  Timeline early = traced.simulation.timeline;
  for (Span& span : early.spans) {
    if (span.rank == 0 && IsCommunication(span.op_class)) span.start_ns -= 30'000;
  }
  const std::vector<ProfilePoint> split = points_of(early, CollectiveSpans::kFromArrival);
  ASSERT_EQ(split.size(), wire.size());
  for (std::size_t i = 0; i < wire.size(); ++i) {
    EXPECT_NEAR(split[i].seconds, wire[i].seconds, 1e-9);
  }
  EXPECT_TRUE(points_of(early, CollectiveSpans::kIfTogether).empty());
  EXPECT_EQ(points_of(traced.simulation.timeline, CollectiveSpans::kIfTogether).size(),
            wire.size());
  EXPECT_TRUE(
      points_of(OfRank(traced.simulation.timeline, 0), CollectiveSpans::kFromArrival).empty());
}

}  // namespace
}  // namespace foretrain

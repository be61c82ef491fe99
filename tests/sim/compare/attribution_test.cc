#include "sim/compare/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "sim/compare/join.h"
#include "sim/program/ir/program.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/models.h"
#include "tests/support/gaps.h"

namespace foretrain {
namespace {

Plan TinyPlan(int dp, int pp) {
  Plan plan;
  plan.dp = dp;
  plan.pp = pp;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = std::int64_t{8} * dp;
  plan.bucket_bytes = 1;
  return plan;
}

// Seconds of an op in the model: 100 us for compute, 30 us for communication, 0 for the host.
double Model(const Op& op, int /*rank*/) {
  if (op.op_class == OpClass::kHost) return 0;
  return IsCommunication(op.kind) ? 30e-6 : 100e-6;
}

struct Case {
  Program program;
  ProgramCosts costs;
  Timeline measured;
  int step = 0;
};

// Creates a measurement by simulating with the times in `truth`.
Case Measure(const Plan& plan, const std::function<double(const Op&, int)>& truth) {
  auto program = Compile(SmallGpt(), plan);
  FT_CHECK(program.has_value());
  Case out{*std::move(program), {}, {}, 0};
  const auto costs_of = [&](const std::function<double(const Op&, int)>& seconds) {
    return CostsByOp(out.program, [&](const Op& op, std::size_t rank, std::size_t) {
      return seconds(op, static_cast<int>(rank));
    });
  };
  out.costs = costs_of(Model);
  const auto run = Simulate(out.program, costs_of(truth));
  FT_CHECK(run.has_value());
  out.measured = run->timeline;
  out.step = run->steps - 1;
  return out;
}

double ShareOf(const Attribution& attribution, GapClass gap_class) {
  for (const GapShare& share : attribution.shares) {
    if (share.gap_class == gap_class) return share.seconds;
  }
  return 0;
}

double Sum(const Attribution& attribution) {
  return std::accumulate(attribution.shares.begin(), attribution.shares.end(), 0.0,
                         [](double sum, const GapShare& share) { return sum + share.seconds; });
}

TEST(AttributeGap, FindsNoGapWhereTheMeasurementIsTheForecast) {
  const Case c = Measure(TinyPlan(1, 2), Model);
  const auto attribution = AttributeGap(c.program, c.costs, c.measured, c.step);
  ASSERT_TRUE(attribution.has_value()) << attribution.error().message;
  // Timelines hold whole nanoseconds, so a step of some 500 ops may differ by that many.
  EXPECT_NEAR(attribution->measured_s, attribution->predicted_s, 1e-6);
  EXPECT_NEAR(Sum(*attribution), 0.0, 1e-6);
  EXPECT_NEAR(attribution->unexplained_s, 0.0, 1e-6);
  EXPECT_EQ(attribution->covered, 1.0);
  EXPECT_TRUE(attribution->Trusted());
}

TEST(AttributeGap, GivesASlowdownToItsClassAlone) {
  const Case c = Measure(TinyPlan(1, 1), [](const Op& op, int rank) {
    return Model(op, rank) * (op.op_class == OpClass::kGemm ? 1.5 : 1.0);
  });
  const auto attribution = AttributeGap(c.program, c.costs, c.measured, c.step);
  ASSERT_TRUE(attribution.has_value()) << attribution.error().message;
  // With one rank nothing overlaps, so the gap is half the time of all GEMMs. 8 micro-batches have
  // 4 layers * (4 forward + 8 backward) + head (1 + 2) = 51 GEMMs each: 408 * 50 us = 20.4 ms.
  EXPECT_NEAR(ShareOf(*attribution, GapClass::kGemm), 20.4e-3, 2e-6);
  EXPECT_NEAR(ShareOf(*attribution, GapClass::kAttention), 0.0, 2e-6);
  EXPECT_NEAR(ShareOf(*attribution, GapClass::kMemoryBound), 0.0, 2e-6);
  EXPECT_TRUE(attribution->exact);
}

TEST(AttributeGap, SharesSumToTheReplayedGapAndComputeWaitingInsteadOfCopyingIt) {
  // Stage 1 is slow. Stage 0 waits in its receives, and none of that counts as the pipeline's own
  // time.
  const Case c = Measure(TinyPlan(1, 2), [](const Op& op, int rank) {
    return Model(op, rank) * (rank == 1 && IsCompute(op.op_class) ? 1.3 : 1.0);
  });
  const auto attribution = AttributeGap(c.program, c.costs, c.measured, c.step);
  ASSERT_TRUE(attribution.has_value()) << attribution.error().message;
  ASSERT_EQ(attribution->machine.size(), 1U);
  EXPECT_EQ(attribution->machine[0].rank, 1);
  EXPECT_NEAR(Sum(*attribution) + attribution->machine[0].seconds,
              attribution->replayed_s - attribution->predicted_s, 1e-9);
  EXPECT_NEAR(Sum(*attribution), 0.0, 2e-5);
  EXPECT_NEAR(ShareOf(*attribution, GapClass::kPipeline), 0.0, 2e-5);
  EXPECT_NEAR(attribution->unexplained_s, 0.0, 0.01 * attribution->measured_s);
}

TEST(AttributeGap, FindsASlowNetworkInTheClassThatUsesIt) {
  const Case c = Measure(TinyPlan(2, 1), [](const Op& op, int rank) {
    return Model(op, rank) * (op.op_class == OpClass::kDpComm ? 20.0 : 1.0);
  });
  const auto attribution = AttributeGap(c.program, c.costs, c.measured, c.step);
  ASSERT_TRUE(attribution.has_value()) << attribution.error().message;
  EXPECT_GT(ShareOf(*attribution, GapClass::kDataParallel),
            0.9 * (attribution->replayed_s - attribution->predicted_s));
}

TEST(AttributeGap, RefusesAStepThatWasNotMeasured) {
  const Case c = Measure(TinyPlan(1, 1), Model);
  const auto attribution = AttributeGap(c.program, c.costs, c.measured, 999);
  ASSERT_FALSE(attribution.has_value());
  EXPECT_THAT(attribution.error().message, testing::HasSubstr("999"));
}

TEST(JoinRuns, PairsEachOpWithItsCounterpartAndWeighsErrorsByTime) {
  const Case c = Measure(TinyPlan(1, 2), [](const Op& op, int rank) {
    return Model(op, rank) * (op.op_class == OpClass::kGemm ? 1.1 : 1.0);
  });
  const auto predicted = Simulate(c.program, c.costs);
  ASSERT_TRUE(predicted.has_value());
  const RunJoin join = JoinRuns(predicted->timeline, predicted->steps - 1, c.measured, c.step);
  EXPECT_TRUE(join.only_predicted.empty());
  EXPECT_TRUE(join.only_measured.empty());
  std::size_t ops = 0;
  for (const RankProgram& rank : c.program.ranks) ops += static_cast<std::size_t>(rank.op_count);
  EXPECT_EQ(join.pairs.size(), ops);
  ASSERT_TRUE(join.op_error.has_value());
  // GEMMs are 10 % off and other ops are exact, so the error is a tenth of the GEMMs' share of
  // compute.
  double gemm = 0, compute = 0;
  for (const ClassPair& sum : join.classes) {
    if (!IsCompute(sum.op_class)) continue;
    compute += sum.predicted_s;
    if (sum.op_class == OpClass::kGemm) gemm += sum.predicted_s;
  }
  EXPECT_NEAR(*join.op_error, 0.1 * gemm / compute, 1e-4);
}

TEST(MedianStep, IsTheLowerMiddleAndLeavesOutTheFirstSteps) {
  Timeline timeline;
  timeline.world = 1;
  const int lengths[] = {90, 10, 30, 20,
                         40};  // steps 1 to 4 take 10 20 30 40; the lower middle, 20, is step 3
  std::int64_t start = 0;
  for (int step = 0; step < 5; ++step) {
    timeline.steps.push_back({start, start + lengths[step], step, 0});
    start += lengths[step];
  }
  EXPECT_EQ(MedianStep(timeline, 1), 3);
  EXPECT_EQ(MedianStep(timeline, 5), std::nullopt);
}

}  // namespace
}  // namespace foretrain

#include "ui/view_model/panels/rank_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Three ranks in three steps, one op each: the first step warms up.
//   rank 0  500 100 102    rank 1  500 100 104    rank 2  500 120 110
CompareInput ThreeRanks() {
  constexpr std::int64_t kTimes[3][3] = {{500, 100, 102}, {500, 100, 104}, {500, 120, 110}};
  std::vector<Span> spans;
  for (int rank = 0; rank < 3; ++rank) {
    for (int step = 0; step < 3; ++step) {
      spans.push_back(
          ComputeSpan({.rank = rank, .step = step}, 1000 * step, 1000 * step + kTimes[rank][step]));
    }
  }
  CompareInput input;
  input.measured = RunOfSpans(spans);
  input.measured->metrics.warmup_steps = 1;
  return input;
}

RankMap MapOf(const CompareInput& input, RankMetric metric) {
  const SidePair sides = SidesOf(input, FactsOf(input));
  return MakeRankMap(sides.Of(Side::kMeasured), metric);
}

TEST(RankMap, HoldsEachRankInEachStep) {
  const CompareInput input = ThreeRanks();
  const RankMap map = MapOf(input, RankMetric::kStepTime);
  EXPECT_THAT(map.ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(map.steps, ElementsAre(0, 1, 2));
  EXPECT_THAT(map.counted, ElementsAre(false, true, true));
  EXPECT_EQ(map.At(2, 1), 120.0);
  EXPECT_EQ(map.At(0, 0), 500.0);
  // Without the warm-up step.
  EXPECT_EQ(map.min, 100.0);
  EXPECT_EQ(map.max, 120.0);
  EXPECT_EQ(map.Shade(110.0), 0.5);
  EXPECT_EQ(map.Shade(500.0), 1.0);
  EXPECT_EQ(map.rows[0].median, 101.0);
  EXPECT_EQ(map.rows[1].median, 102.0);
  EXPECT_EQ(map.rows[2].median, 115.0);
  EXPECT_EQ(map.median, 102.0);
  // Quartiles of 100 and 102 are 100.5 and 101.5.
  EXPECT_DOUBLE_EQ(map.rows[0].spread, 1.0 / 101.0);
}

TEST(RankMap, NamesWhoIsSlow) {
  const CompareInput input = ThreeRanks();
  const RankMap map = MapOf(input, RankMetric::kStepTime);
  const std::vector<Straggler> found = StragglersOf(map);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].others, 101.5);
  EXPECT_EQ(Describe(found[0], RankMetric::kStepTime),
            "rank 2: step time 13.3 % over the others (115 ns, median of the others 102 ns)");
  // 13.5 ns more are less than 14.
  EXPECT_THAT(StragglersOf(map, 14.0), IsEmpty());
}

// Four ranks whose compute takes 1,000 ns, give or take up to 5 %; rank 3 takes `slower` times
// that.
CompareInput NoisyRanks(int steps, double slower, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Span> spans;
  for (int rank = 0; rank < 4; ++rank) {
    for (int step = 0; step < steps; ++step) {
      const auto noise = static_cast<std::int64_t>(random() % 101) - 50;
      const double length_ns = static_cast<double>(1'000 + noise) * (rank == 3 ? slower : 1.0);
      const std::int64_t start_ns = std::int64_t{10'000} * step;
      spans.push_back(ComputeSpan({.rank = rank, .step = step}, start_ns,
                                  start_ns + static_cast<std::int64_t>(length_ns)));
    }
  }
  CompareInput input;
  input.measured = RunOfSpans(spans);
  return input;
}

TEST(RankMap, NamesARankThatIsSlowerBy30PercentWithinTwentySteps) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const CompareInput input = NoisyRanks(/*steps=*/20, /*slower=*/1.3, seed);
    const std::vector<Straggler> found = StragglersOf(MapOf(input, RankMetric::kCompute));
    ASSERT_THAT(found, SizeIs(1)) << seed;
    EXPECT_EQ(found[0].rank, 3);
    EXPECT_NEAR(found[0].Excess(), 0.3, 0.07);
  }
}

TEST(RankMap, ComparesARankWithTheMedianOfTheOthers) {
  CompareInput input;
  input.measured = RunOfSpans({ComputeSpan({.rank = 0}, 0, 100), ComputeSpan({.rank = 1}, 0, 130),
                               ComputeSpan({.rank = 2}, 0, 110), ComputeSpan({.rank = 3}, 0, 200)});
  const std::vector<Straggler> found = StragglersOf(MapOf(input, RankMetric::kCompute));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_EQ(found[0].others, 110.0);
}

TEST(RankMap, NamesNobodyInAThousandEvenSteps) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const CompareInput input = NoisyRanks(/*steps=*/1'000, /*slower=*/1.0, seed);
    EXPECT_THAT(StragglersOf(MapOf(input, RankMetric::kCompute)), IsEmpty()) << seed;
  }
}

TEST(RankMap, KnowsNoStragglerAmongOneOrEqualOnes) {
  CompareInput input;
  input.measured = RunOfSpans({ComputeSpan({}, 0, 100)});
  EXPECT_THAT(StragglersOf(MapOf(input, RankMetric::kStepTime)), IsEmpty());
  input.measured = RunOfSpans({ComputeSpan({.rank = 0}, 0, 100), ComputeSpan({.rank = 1}, 0, 104)});
  EXPECT_THAT(StragglersOf(MapOf(input, RankMetric::kStepTime)), IsEmpty());
}

TEST(RankMap, SplitsWaitingFromComputing) {
  const CompareInput input = TwoRanks();
  // Rank 1 computes for 200 of its 240 ns and waits 40 for its input.
  EXPECT_EQ(MapOf(input, RankMetric::kCompute).At(1, 0), 200.0);
  EXPECT_EQ(MapOf(input, RankMetric::kWait).At(1, 0), 40.0);
  EXPECT_EQ(MapOf(input, RankMetric::kExposedCommunication).At(0, 0), 0.0);
}

TEST(RankMap, LeavesOutMemoryThatWasNotRecorded) {
  CompareInput input = TwoRanks();
  input.measured->timeline.memory = {{.time_ns = 1000, .bytes = 4096, .rank = 1}};
  const RankMap map = MapOf(input, RankMetric::kPeakMemory);
  EXPECT_TRUE(std::isnan(map.At(0, 0)));
  EXPECT_EQ(map.At(1, 0), 4096.0);
  EXPECT_EQ(map.rows[0].steps, 0);
  EXPECT_EQ(FormatMetric(map.metric, map.At(0, 0)), "not recorded");
  EXPECT_EQ(FormatMetric(map.metric, map.At(1, 0)), "4.00 KiB");
}

TEST(RankMap, FoldsToTheWorstOfEachCell) {
  const CompareInput input = ThreeRanks();
  const RankMap map = MapOf(input, RankMetric::kStepTime);
  const FoldedRankMap whole = Fold(map, 10, 10);
  EXPECT_EQ(whole.rows, 3U);
  EXPECT_EQ(whole.columns, 3U);
  EXPECT_EQ(whole.At(1, 2).value, 104.0);
  // Ranks 0 and 1 share a row.
  const FoldedRankMap folded = Fold(map, 2, 3);
  EXPECT_EQ(folded.rows, 2U);
  EXPECT_EQ(folded.At(0, 2).value, 104.0);
  EXPECT_EQ(folded.At(0, 2).rank, 1U);
  EXPECT_EQ(folded.At(1, 1).value, 120.0);
}

TEST(RankMap, OfNothingIsEmpty) {
  const CompareInput input;
  const RankMap map = MapOf(input, RankMetric::kStepTime);
  EXPECT_FALSE(map.HasScale());
  EXPECT_TRUE(Fold(map, 4, 4).cells.empty());
}

}  // namespace
}  // namespace foretrain::ui

#include "ui/view_model/panels/op_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"
#include "tests/ui/sample_run.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Made {
  SidePair sides;
  std::vector<PairedOp> pairs;
  OpGroups groups;
};

Made MakeGroups(const CompareInput& input, const std::map<OpId, double>& flops = {}) {
  Made made{SidesOf(input, FactsOf(input)), {}, {}};
  made.pairs = PairsOf(made.sides);
  made.groups = GroupOps(made.sides, made.pairs, flops);
  return made;
}

TEST(OpGroups, SumWhatIsAlikeInEveryLayerAndMicroBatch) {
  const CompareInput input = TwoRanks();
  const OpGroups groups = MakeGroups(input).groups;
  ASSERT_EQ(groups.groups.size(), 2U);
  // The send, which has no counterpart, is off by 50 ns, the four mlps together by 440 - 400.
  const OpGroup& send = groups.groups[0];
  EXPECT_EQ(TitleOf(send), "send  forward");
  EXPECT_THAT(send.ops, ElementsAre(0, 1));
  EXPECT_EQ(send.ErrorNs(), 50);
  EXPECT_EQ(send.Coverage(), 0.0);
  // 1,000 bytes in 50 ns.
  EXPECT_EQ(send.Rate(Side::kMeasured), 20e9);
  EXPECT_EQ(send.Rate(Side::kPredicted), std::nullopt);
  const OpGroup& mlp = groups.groups[1];
  EXPECT_EQ(TitleOf(mlp), "mlp  forward");
  EXPECT_THAT(mlp.ops, ElementsAre(4, 4));
  EXPECT_THAT(mlp.busy_ns, ElementsAre(400, 440));
  EXPECT_EQ(mlp.Coverage(), 1.0);
  EXPECT_EQ(mlp.Rate(Side::kMeasured), std::nullopt);
  // Means over two ranks, against a step that is 40 ns longer.
  EXPECT_DOUBLE_EQ(groups.Seconds(mlp, Side::kMeasured), 220e-9);
  EXPECT_DOUBLE_EQ(*groups.ShareOfError(mlp), 0.5);
  EXPECT_DOUBLE_EQ(*groups.ShareOfError(send), 0.625);
}

TEST(OpGroups, TellWhatComputeReaches) {
  const CompareInput input = TwoRanks();
  std::map<OpId, double> flops;
  flops[NameKey(IdOf({.block = 1}))] = 1100.0;
  const OpGroup half = MakeGroups(input, flops).groups.groups[1];
  // The FLOPs of layer 2's ops are unknown, so those of their group are too.
  EXPECT_EQ(half.Rate(Side::kMeasured), std::nullopt);
  flops[NameKey(IdOf({.block = 2}))] = 1100.0;
  const OpGroup mlp = MakeGroups(input, flops).groups.groups[1];
  // 4 * 1,100 in 440 ns and in 400 ns.
  EXPECT_DOUBLE_EQ(*mlp.Rate(Side::kMeasured), 10e9);
  EXPECT_DOUBLE_EQ(*mlp.Rate(Side::kPredicted), 11e9);
}

TEST(OpGroups, OfOneRunStandByTheirTime) {
  CompareInput input = TwoRanks();
  input.predicted.reset();
  const OpGroups groups = MakeGroups(input).groups;
  ASSERT_EQ(groups.groups.size(), 2U);
  EXPECT_EQ(groups.groups[0].name, "mlp");
  EXPECT_THAT(groups.groups[0].busy_ns, ElementsAre(0, 440));
  EXPECT_EQ(groups.ShareOfError(groups.groups[0]), std::nullopt);
}

TEST(OpGroups, AreOrderedByAnyColumn) {
  const CompareInput input = TwoRanks();
  const OpGroups groups = MakeGroups(input).groups;  // 0: send, 1: mlp
  EXPECT_THAT(OrderOf(groups, GroupColumn::kName, false), ElementsAre(1, 0));
  EXPECT_THAT(OrderOf(groups, GroupColumn::kShare, true), ElementsAre(0, 1));
  EXPECT_THAT(OrderOf(groups, GroupColumn::kCount, true), ElementsAre(1, 0));
  EXPECT_THAT(OrderOf(groups, GroupColumn::kCoverage, false), ElementsAre(0, 1));
  EXPECT_THAT(OrderOf(groups, GroupColumn::kRate, true), ElementsAre(0, 1));
  EXPECT_THAT(OrderOf(groups, GroupColumn::kMeasured, true), ElementsAre(1, 0));
}

TEST(OpGroups, HoldEachOpOfARunOnce) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  const Made made = MakeGroups(input);
  std::int64_t measured = 0, error = 0, grouped = 0, grouped_error = 0;
  for (const PairedOp& pair : made.pairs) {
    measured += pair.measured.has_value();
    error += (pair.measured ? pair.measured->busy_ns : 0) -
             (pair.predicted ? pair.predicted->busy_ns : 0);
  }
  for (const OpGroup& group : made.groups.groups) {
    grouped += group.ops[1];
    grouped_error += group.ErrorNs();
  }
  EXPECT_EQ(grouped, measured);
  EXPECT_EQ(grouped_error, error);
  EXPECT_EQ(made.groups.group_of.size(), made.pairs.size());
}

TEST(Histogram, CountsDurationsOfBothRuns) {
  const CompareInput input = TwoRanks();
  const Made made = MakeGroups(input);
  const Histogram histogram = HistogramOf(made.groups, made.pairs, 1, 5);
  // Predicted 100 four times, measured 90, 100, 110 and 140: five bins of 10 from 90 on.
  EXPECT_EQ(histogram.start_ns, 90.0);
  EXPECT_EQ(histogram.width_ns, 10.0);
  EXPECT_THAT(histogram.counts[0], ElementsAre(0, 4, 0, 0, 0));
  EXPECT_THAT(histogram.counts[1], ElementsAre(1, 1, 1, 0, 1));
  EXPECT_THAT(histogram.median_ns, ElementsAre(100, 100));
  EXPECT_EQ(histogram.Highest(), 4);
}

TEST(Histogram, OfNothingHasNoBins) {
  const CompareInput input;
  const Made made = MakeGroups(input);
  EXPECT_THAT(made.groups.groups, IsEmpty());
  EXPECT_EQ(HistogramOf(made.groups, made.pairs, 0, 5).width_ns, 0.0);
}

}  // namespace
}  // namespace foretrain::ui

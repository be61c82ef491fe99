#include "ui/view_model/timeline/drift.h"

#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

TEST(Drift, IsHowMuchLaterEachOpEnds) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  ASSERT_EQ(model.lanes.size(), 2U);
  const std::vector<DriftPoint>& first = model.lanes[0].drift;
  // Rank 0 ends at 100 as forecast, then at 240 instead of 200. The send has no counterpart.
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].time_ns, 0);
  EXPECT_EQ(first[0].drift_ns, 0);
  EXPECT_EQ(first[1].drift_ns, 0);
  EXPECT_EQ(first[2].time_ns, 240);
  EXPECT_EQ(first[2].drift_ns, 40);
  // Rank 1 ends at 200 as forecast, then at 350 instead of 300.
  EXPECT_EQ(model.lanes[1].drift.back().drift_ns, 50);
}

TEST(Drift, IsThatOfTheLastOpThatEnded) {
  const std::vector<DriftPoint> points{{0, 0}, {100, 5}, {200, 12}};
  EXPECT_EQ(DriftAt(points, -1.0), 0);
  EXPECT_EQ(DriftAt(points, 150.0), 5);
  EXPECT_EQ(DriftAt(points, 1e9), 12);
  EXPECT_EQ(DriftAt({}, 1e9), 0);
}

TEST(Drift, FoldsToLowAndHighOfEachColumn) {
  const std::vector<DriftPoint> points{{0, 0}, {10, 8}, {12, -4}, {18, 2}, {50, 20}};
  // 10 ns a column over [0, 40): columns 0 and 1, then where the line crosses the edge.
  const std::vector<DriftColumn> columns = FoldDrift(points, 0.0, 40.0, 4);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(columns[1].column, 1);
  EXPECT_DOUBLE_EQ(columns[1].low_ns, -4.0);
  EXPECT_DOUBLE_EQ(columns[1].high_ns, 8.0);
  EXPECT_DOUBLE_EQ(columns[1].first_ns, 8.0);
  EXPECT_DOUBLE_EQ(columns[1].last_ns, 2.0);
  EXPECT_EQ(columns[2].column, 4);
  // From (18, 2) to (50, 20) at 40: 2 + 18 * 22/32 = 14.375.
  EXPECT_DOUBLE_EQ(columns[2].last_ns, 14.375);
}

TEST(Drift, CrossesAWindowWithoutPoints) {
  const std::vector<DriftPoint> points{{0, 0}, {100, 10}};
  const std::vector<DriftColumn> columns = FoldDrift(points, 40.0, 60.0, 10);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_DOUBLE_EQ(columns[0].last_ns, 4.0);
  EXPECT_DOUBLE_EQ(columns[1].last_ns, 6.0);
  EXPECT_TRUE(FoldDrift(points, 200.0, 300.0, 10).empty());
}

TEST(Drift, ComesFromTransfersWhereARankComputesNothing) {
  const auto pair = [](std::int64_t predicted_end, std::int64_t measured_end) {
    OpTotal predicted{
        .end_ns = predicted_end, .queue = Queue::kReduce, .op_class = OpClass::kDpComm};
    OpTotal measured = predicted;
    measured.end_ns = measured_end;
    return PairedOp{.predicted = predicted, .measured = measured};
  };
  const std::vector<PairedOp> pairs{pair(100, 130)};
  const auto points = DriftOfRank(pairs, 0, 10);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[1].drift_ns, 130 - 10 - 100);
}

}  // namespace
}  // namespace foretrain::ui

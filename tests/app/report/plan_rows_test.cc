#include "app/report/plans/plan_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace foretrain {
namespace {

RankedPlan Of(int tp, ScheduleKind schedule, double step_s, std::int64_t bytes) {
  RankedPlan out;
  out.plan.tp = tp;
  out.plan.pp = 2;
  out.plan.schedule = schedule;
  out.step_s = step_s;
  out.device.tensors = bytes;
  return out;
}

// tp 1: 1.00 s and 1.005 s share a row, and the second has the shorter description; 1.3 s is slower
// and no smaller. Half of the memory is less than 0.8 of it: a row of its own. tp 2 is another
// layout.
TEST(PlanRows, FoldPlansOfOneLayoutThatAreNoSmallerAndShowTheSimplest) {
  std::vector<RankedPlan> plans = {
      Of(1, ScheduleKind::k1f1b, 1.0, 1000), Of(1, ScheduleKind::k1f1b, 1.005, 1000),
      Of(2, ScheduleKind::k1f1b, 1.006, 1000), Of(1, ScheduleKind::k1f1b, 1.01, 500),
      Of(1, ScheduleKind::k1f1b, 1.3, 900)};
  plans.front().plan.zero_stage = 1;
  const std::vector<PlanRow> rows = RowsOf(plans);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].shown, &plans[1]);
  EXPECT_THAT(rows[0].alike, testing::ElementsAre(&plans[0], &plans[4]));
  EXPECT_EQ(rows[1].shown, &plans[2]);
  EXPECT_EQ(rows[2].shown, &plans[3]);
}

// 1.5 % slower is alike, but not near enough to stand for the fastest.
TEST(PlanRows, ShowAPlanWithinOnePercentOfTheFastestAlone) {
  std::vector<RankedPlan> plans = {Of(1, ScheduleKind::k1f1b, 1.0, 1000),
                                   Of(1, ScheduleKind::k1f1b, 1.015, 1000)};
  plans.front().plan.zero_stage = 1;
  const std::vector<PlanRow> rows = RowsOf(plans);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].shown, &plans[0]);
}

}  // namespace
}  // namespace foretrain

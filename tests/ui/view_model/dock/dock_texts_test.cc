#include "ui/view_model/dock/dock_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DockTexts, SumTheMeasuredPartOfTheStepInTheRunsOwnTime) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  // The measured step begins at 1,000 ns; the range may be drawn from right to left.
  const auto range = RangeOf(model, Side::kMeasured, Measure{200.0, 100.0});
  ASSERT_TRUE(range.has_value()) << range.error().message;
  EXPECT_EQ(range->start_ns, 1100);
  EXPECT_EQ(range->end_ns, 1200);
  const auto whole = RangeOf(model, Side::kMeasured, std::nullopt);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_EQ(whole->start_ns, 1000);
  EXPECT_EQ(whole->end_ns, 1350);
}

TEST(DockTexts, LeaveOutWhatLiesBeforeTheStep) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  const auto range = RangeOf(model, Side::kMeasured, Measure{-50.0, 100.0});
  ASSERT_TRUE(range.has_value()) << range.error().message;
  EXPECT_EQ(range->start_ns, 1000);
  const auto before = RangeOf(model, Side::kMeasured, Measure{-50.0, -10.0});
  ASSERT_FALSE(before.has_value());
  EXPECT_THAT(before.error().message, HasSubstr("ends before the measured step begins"));
}

TEST(DockTexts, SayThatAMissingRunHasNoStep) {
  CompareInput input = TwoRanks();
  input.predicted.reset();
  const CompareModel model = ModelOf(input);
  const auto range = RangeOf(model, Side::kPredicted, std::nullopt);
  ASSERT_FALSE(range.has_value());
  EXPECT_THAT(range.error().message, HasSubstr("has no step"));
}

TEST(DockTexts, NameTheStoredRunOfEachSide) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  std::vector<RunInfo> runs(1);
  runs[0].id = 7;
  runs[0].forecast = 3;
  EXPECT_EQ(RunIdOf(model, Side::kMeasured, {"a.db", 7, 0}, runs), 7);
  EXPECT_EQ(RunIdOf(model, Side::kPredicted, {"a.db", 7, 0}, runs), 3);
  EXPECT_EQ(RunIdOf(model, Side::kPredicted, {"a.db", 7, 5}, runs), 5);
  EXPECT_EQ(RunIdOf(model, Side::kPredicted, {"a.db", 7, 0}, {}), std::nullopt);
  EXPECT_EQ(RunIdOf(model, Side::kMeasured, {}, runs), std::nullopt);
}

TEST(DockTexts, ListFoundSpansByPlace) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  EXPECT_THAT(CellsOf(model, {Side::kMeasured, 1}),
              ElementsAre("mlp", HasSubstr("forward"), "0", "100 ns", "140 ns"));
  EXPECT_THAT(TableOf(model, {{Side::kMeasured, 0}}).Csv(), HasSubstr("op,of,rank,starts,takes\n"));
}

}  // namespace
}  // namespace foretrain::ui

#include "sim/config/schedule/check_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/config/schedule/schedule_csv.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ScheduleReport Check(const std::string& text) {
  const auto draft = ParseSchedule(text, "s.csv");
  EXPECT_TRUE(draft.has_value()) << draft.error().message;
  return draft ? CheckSchedule(*draft) : ScheduleReport();
}

// Expects exactly one finding.
ScheduleFinding OnlyFinding(const std::string& text) {
  const ScheduleReport report = Check(text);
  EXPECT_EQ(report.finding_count, 1U) << text;
  return report.findings.empty() ? ScheduleFinding() : report.findings.front();
}

// 1F1B of two ranks and two micro-batches. Rank 0: F F from 0, its first backward after the second
// stage's at 2 + 2 = 4. So 0F0 0..1, 1F0 1..2, 1B0 2..4, 0B0 4..6, 1F1 4..5, 1B1 5..7, 0B1 7..9.
// Each rank works 6 of 9 units.
TEST(CheckSchedule, TellsTimesBubbleAndActivations) {
  const ScheduleReport report = Check("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.shape, StageShape::kLine);
  EXPECT_EQ(report.stages, 2);
  EXPECT_EQ(report.micro_batches, 2);
  EXPECT_THAT(report.peak_live, ElementsAre(2, 1));
  EXPECT_DOUBLE_EQ(report.makespan, 9);
  EXPECT_DOUBLE_EQ(report.bubble, 1.0 / 3);
  ASSERT_EQ(report.times.size(), 2U);
  EXPECT_DOUBLE_EQ(report.times[0][3].start, 7);
  EXPECT_DOUBLE_EQ(report.times[1][2].start, 4);
}

// The halves of a backward let rank 0 go on one unit earlier each time.
TEST(CheckSchedule, SendsInputGradientsAtTheEndOfTheirHalf) {
  const ScheduleReport report = Check("0F0,0I0,0W0\n1F0,1I0,1W0\n");
  EXPECT_TRUE(report.Works());
  EXPECT_DOUBLE_EQ(report.makespan, 5);
  EXPECT_DOUBLE_EQ(report.times[0][1].start, 3);
}

TEST(CheckSchedule, KnowsFourPlacementsOfStages) {
  EXPECT_EQ(Check("0F0,1F0,1B0,0B0\n").shape, StageShape::kRounds);
  const ScheduleReport rounds = Check("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n");
  EXPECT_EQ(rounds.shape, StageShape::kRounds);
  EXPECT_EQ(rounds.stages, 4);
  EXPECT_TRUE(rounds.Works());
  const ScheduleReport v = Check("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_EQ(v.shape, StageShape::kV);
  EXPECT_EQ(v.chunks, 2);
  EXPECT_TRUE(v.Works());
  const ScheduleReport both = Check("0F0,1F1,1B1,0B0\n1F0,0F1,1B0,0B1\n");
  EXPECT_EQ(both.shape, StageShape::kBothWays);
  EXPECT_EQ(both.stages, 2);
}

TEST(CheckSchedule, RefusesOtherPlacements) {
  const ScheduleFinding swapped = OnlyFinding("1F0,1B0\n0F0,0B0\n");
  EXPECT_EQ(swapped.fault, ScheduleFault::kStages);
  EXPECT_THAT(swapped.text, HasSubstr("rank 0 of 2 runs stages 1; rank r of p may run r"));
  EXPECT_THAT(OnlyFinding("0F0,0B0\n1F0,1B0,2F0,2B0\n").text,
              HasSubstr("rank 0 runs 1 stages and rank 1 runs 2"));
  EXPECT_THAT(OnlyFinding("0F0,0B0\n\n2F0,2B0\n").text, HasSubstr("rank 1 runs 0"));
  EXPECT_THAT(OnlyFinding("0F0,1F1,1F2,1B1,1B2,0B0\n1F0,0F1,0F2,1B0,0B1,0B2\n").text,
              HasSubstr("3 micro-batches on ranks that hold stages r and p - 1 - r"));
  EXPECT_EQ(CheckSchedule({}).finding_count, 1U);
}

TEST(CheckSchedule, FindsMicroBatchesThatGoTheWrongWay) {
  // The first of two micro-batches goes down: stage 0 on rank 0.
  const ScheduleReport report = Check("0F1,1F0,1B0,0B1\n1F1,0F0,1B1,0B0\n");
  ASSERT_EQ(report.finding_count, 16U);
  EXPECT_THAT(report.findings[0].text,
              HasSubstr("rank 0, cell 1 (0F1): micro-batch 1 of 2 goes up, so rank 1 runs it on "
                        "stage 0"));
}

TEST(CheckSchedule, FindsMissingPasses) {
  EXPECT_EQ(OnlyFinding("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n").text,
            "stage 0 has no backward of micro-batch 1 (0B1, or 0I1 and 0W1)");
  EXPECT_EQ(OnlyFinding("0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n").text,
            "stage 0 has no forward of micro-batch 1 (0F1)");
  EXPECT_THAT(OnlyFinding("0F0,0I0\n").text,
              HasSubstr("no weight half of the backward of micro-batch 0 (0W0)"));
  EXPECT_THAT(OnlyFinding("0F0,0W0\n").text,
              HasSubstr("no input half of the backward of micro-batch 0 (0I0)"));
  EXPECT_THAT(OnlyFinding("0F0,0B0,0F9\n").text,
              HasSubstr("1 stages and micro-batches up to 9 need at least 20 passes; the schedule "
                        "has 3"));
}

TEST(CheckSchedule, FindsDoubledPasses) {
  const ScheduleFinding twice = OnlyFinding("0F0,0B0,0F0\n");
  EXPECT_EQ(twice.fault, ScheduleFault::kDoubled);
  EXPECT_EQ(twice.text, "rank 0, cell 3 (0F0) is there twice, first in rank 0, cell 1 (0F0)");
  EXPECT_THAT(twice.places, ElementsAre(ActionPlace{0, 0}, ActionPlace{0, 2}));
  EXPECT_THAT(OnlyFinding("0F0,0B0,0W0\n").text,
              HasSubstr("rank 0, cell 3 (0W0) repeats a half of the whole backward"));
}

TEST(CheckSchedule, FindsBrokenOrderOnARank) {
  const ScheduleFinding early = OnlyFinding("0B0,0F0\n");
  EXPECT_EQ(early.fault, ScheduleFault::kOrder);
  EXPECT_EQ(early.text, "rank 0, cell 1 (0B0) comes before rank 0, cell 2 (0F0), which it needs");
  EXPECT_THAT(OnlyFinding("0F0,0W0,0I0\n").text, HasSubstr("(0W0) comes before rank 0, cell 3"));
  EXPECT_THAT(OnlyFinding("0F0,0F1,0B1,0B0\n").text,
              HasSubstr("rank 0, cell 4 (0B0) comes after rank 0, cell 3 (0B1); a stage adds its "
                        "weight gradients in ascending order"));
  // Input halves may come in any order.
  EXPECT_TRUE(Check("0F1,0F0,0I1,0I0,0W0,0W1\n").Works());
}

// Ranks 0 and 1 both hold stages 0 and 1. Rank 0 ends with stage 1, rank 1 with stage 0.
TEST(CheckSchedule, FindsHoldersThatEndTheirStagesInAnotherOrder) {
  const ScheduleFinding other = OnlyFinding(
      "0F0,0F1,1F2,1F3,1I2,1W2,1I3,0I0,0W0,0I1,0W1,1W3\n"
      "1F0,1F1,0F2,0F3,1I0,1W0,1I1,1W1,0I2,0W2,0I3,0W3\n");
  EXPECT_EQ(other.fault, ScheduleFault::kOrder);
  EXPECT_EQ(other.text,
            "rank 0, cell 11 (0W1) and rank 0, cell 12 (1W3), but rank 1, cell 8 (1W1) and rank 1, "
            "cell 12 (0W3): ranks 0 and 1 hold both stages and must end their weight gradients in "
            "the same order");
}

TEST(CheckSchedule, FindsAnEmbeddingBeforeTheHeadOfItsRank) {
  const ScheduleFinding early = OnlyFinding("0F0,1F0,1I0,0I0,0W0,1W0\n");
  EXPECT_EQ(early.fault, ScheduleFault::kOrder);
  EXPECT_THAT(early.text,
              HasSubstr("rank 0, cell 5 (0W0) comes before any weight gradient of stage 1"));
  EXPECT_TRUE(Check("0F0,1F0,1I0,0I0,1W0,0W0\n").Works());
  // Another rank holds the last stage.
  EXPECT_TRUE(Check("0F0,0I0,0W0\n1F0,1I0,1W0\n").Works());
}

TEST(CheckSchedule, FindsPairsThatCannotBe) {
  EXPECT_THAT(OnlyFinding("(0F0;0F1)OVERLAP_F_B,0B0,0B1\n").text,
              HasSubstr("a pair is a forward and a whole backward"));
  // A forward cannot run together with its own backward.
  const ScheduleFinding own = OnlyFinding("0F0,0B0\n(1F0;1B0)OVERLAP_F_B\n");
  EXPECT_THAT(own.text, HasSubstr("cannot hold a forward and its own backward"));
}

// Rank 0 wants its first backward before it has sent the second forward, which rank 1 wants first.
TEST(CheckSchedule, NamesTheRanksOfADeadlock) {
  const ScheduleFinding cycle = OnlyFinding("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2B0,2F1,2B1\n");
  EXPECT_EQ(cycle.fault, ScheduleFault::kDeadlock);
  EXPECT_EQ(cycle.text,
            "rank 0, cell 2 (0B0) waits for rank 1, cell 3 (1B0); rank 1, cell 2 (1F1) "
            "waits for rank 0, cell 3 (0F1); waiting behind them: 1 more");
  EXPECT_THAT(cycle.places, ElementsAre(ActionPlace{0, 1}, ActionPlace{1, 1}));
}

TEST(CheckSchedule, NamesARankThatWaitsForItself) {
  const ScheduleFinding cycle = OnlyFinding("1F0,0F0,1B0,0B0\n");
  EXPECT_EQ(cycle.text, "rank 0, cell 1 (1F0) waits for rank 0, cell 2 (0F0)");
}

TEST(CheckSchedule, DescribesAHundredFindingsAndCountsAll) {
  std::string row;
  for (int k = 0; k < 150; ++k) row += "0B" + std::to_string(k) + ",0F" + std::to_string(k) + ",";
  const ScheduleReport report = Check(row);
  EXPECT_EQ(report.findings.size(), kMaxScheduleFindings);
  EXPECT_EQ(report.finding_count, 150U);
}

TEST(SlotOrder, IsMadeOfASchedulesThatWorksAlone) {
  const auto order = SlotOrder::FromCsv("0F0,0I0,0W0\n1F0,1B0\n", "s.csv");
  ASSERT_TRUE(order.has_value()) << order.error().message;
  EXPECT_EQ(order->ranks(), 2);
  EXPECT_EQ(order->micro_batches(), 1);
  EXPECT_TRUE(order->splits());
  EXPECT_FALSE(order->pairs());
  EXPECT_EQ(order->file(), "s.csv");
  EXPECT_THAT(order->SlotsOf(0), ElementsAre(Slot{Pass::kForward}, Slot{Pass::kBackwardInput},
                                             Slot{Pass::kBackwardWeight}));
  const auto wrong = SlotOrder::FromCsv("0B0,0F0,0B1,0F1\n", "s.csv");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      wrong.error().message,
      "s.csv: order: rank 0, cell 1 (0B0) comes before rank 0, cell 2 (0F0), which it needs (1 "
      "more; `schedule check` lists them)");
}

TEST(SlotOrder, IsEqualToOneWithTheSameSlotsFromAnotherFile) {
  const auto one = SlotOrder::FromCsv("0F0,0B0\n", "a.csv");
  const auto same = SlotOrder::FromCsv(",0F0,,0B0\n", "");
  const auto other = SlotOrder::FromCsv("0F0,0I0,0W0\n", "");
  ASSERT_TRUE(one && same && other);
  EXPECT_EQ(*one, *same);
  EXPECT_FALSE(*one == *other);
  EXPECT_FALSE(*one == SlotOrder());
  EXPECT_EQ(SlotOrder(), SlotOrder());
  EXPECT_NE(same->file(), other->file());
  EXPECT_THAT(same->file(), testing::MatchesRegex("schedule-[0-9a-f]{8}\\.csv"));
}

}  // namespace
}  // namespace foretrain

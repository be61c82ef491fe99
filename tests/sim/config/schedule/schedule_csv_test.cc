#include "sim/config/schedule/schedule_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto draft = ParseSchedule(text, "s.csv");
  return draft.has_value() ? "" : draft.error().message;
}

TEST(ScheduleCsv, ReadsALineForEachRank) {
  const auto draft = ParseSchedule("0F0,0F1,0B0,0B1\n1F0,1I0,1W0\n", "s.csv");
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  ASSERT_EQ(draft->ranks.size(), 2U);
  EXPECT_EQ(draft->ActionCount(), 7U);
  EXPECT_THAT(draft->ranks[1], ElementsAre(ScheduleAction{Pass::kForward, 1, 0},
                                           ScheduleAction{Pass::kBackwardInput, 1, 0},
                                           ScheduleAction{Pass::kBackwardWeight, 1, 0}));
  EXPECT_EQ(draft->ranks[0][2].pass, Pass::kBackward);
  EXPECT_EQ(draft->ranks[0][2].cell, 3);
}

// PyTorch leaves cells of idle steps empty and ends lines with CRLF.
TEST(ScheduleCsv, SkipsIdleCellsQuotesAndLineEnds) {
  const auto draft = ParseSchedule("\xEF\xBB\xBF\"0F0\", ,,0B0\r\n,1F0 , 1B0\r\n\r\n", "s.csv");
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  EXPECT_EQ(ToCsv(*draft), "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(draft->ranks[0][1].cell, 4);
  EXPECT_EQ(draft->ranks[1][0].cell, 2);
}

TEST(ScheduleCsv, LeavesOutCommunicationAndCountsIt) {
  const auto draft = ParseSchedule(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0RESHARD,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n",
      "s.csv");
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  EXPECT_EQ(draft->skipped, 7);
  EXPECT_EQ(ToCsv(*draft), "0F0,0B0\n1F0,1B0\n");
}

TEST(ScheduleCsv, ReadsAndWritesPairs) {
  const std::string text = "0F0,(0F1;3B0)OVERLAP_F_B,0B1\n";
  const auto draft = ParseSchedule(text, "s.csv");
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  ASSERT_EQ(draft->ranks[0].size(), 4U);
  EXPECT_TRUE(draft->ranks[0][1].paired);
  EXPECT_FALSE(draft->ranks[0][2].paired);
  EXPECT_EQ(ToCsv(*draft), text);
}

TEST(ScheduleCsv, RefusesEachWrongCellByLineAndCell) {
  EXPECT_EQ(ErrorOf("0F0,0X1\n"),
            "s.csv: line 1, cell 2: \"0X1\" is no action; use STAGE, one of F, B, I and W, and "
            "MICROBATCH, e.g. 0F1");
  EXPECT_THAT(ErrorOf("0F0\n,0f1\n"), HasSubstr("s.csv: line 2, cell 2: \"0f1\" is no action"));
  EXPECT_THAT(ErrorOf("F0"), HasSubstr("\"F0\" is no action"));
  EXPECT_THAT(ErrorOf("0F"), HasSubstr("\"0F\" is no action"));
  EXPECT_THAT(ErrorOf("0F0 0F1"), HasSubstr("names no micro-batch from 0 to 262143"));
  EXPECT_THAT(ErrorOf("0F-1"), HasSubstr("\"0F-1\" is no action"));
  EXPECT_THAT(ErrorOf("1048576F0"), HasSubstr("names a stage above 1048575"));
  EXPECT_THAT(ErrorOf("99999999999999999999F0"), HasSubstr("names a stage above 1048575"));
  EXPECT_THAT(ErrorOf("0F262144"), HasSubstr("names no micro-batch from 0 to 262143"));
  EXPECT_THAT(ErrorOf("(0F0)OVERLAP_F_B"), HasSubstr("is no pair"));
  EXPECT_THAT(ErrorOf("(0F0;0B0)B"), HasSubstr("is no pair"));
  EXPECT_THAT(ErrorOf("(0F0;0B0"), HasSubstr("is no pair"));
  EXPECT_THAT(ErrorOf("(0SEND_F0;0B0)OVERLAP_F_B"), HasSubstr("\"0SEND_F0\" is no action"));
}

TEST(ScheduleCsv, RefusesWhatHasNoActionOrTooMuch) {
  for (const char* text : {"", "\n\n", ",,,", "0SEND_F0"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("s.csv: has no action")) << text;
  }
  std::string ranks;
  for (std::size_t r = 0; r <= kMaxScheduleRanks; ++r) ranks += "0F0\n";
  EXPECT_THAT(ErrorOf(ranks), HasSubstr("at most 4096 ranks"));
  std::string actions;
  for (std::size_t i = 0; i <= kMaxScheduleActions; ++i) actions += "0F0,";
  EXPECT_THAT(ErrorOf(actions), HasSubstr("at most 1048576"));
  EXPECT_THAT(ErrorOf(std::string(kMaxScheduleBytes + 1, ',')), HasSubstr("has 16777217 bytes"));
}

TEST(ScheduleCsv, ReadsTheRowsOfAPlanFile) {
  const auto draft = ParseScheduleRows({"0F0,0B0", "1F0,1B0"}, "rows");
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  EXPECT_THAT(RowsOf(*draft), ElementsAre("0F0,0B0", "1F0,1B0"));
  const auto wrong = ParseScheduleRows({"0F0,0B0\n1F0"}, "rows");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr("rows: line 1, cell 2"));
}

}  // namespace
}  // namespace foretrain

#include "base/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

TEST(Table, AlignsNumbersRightAndTextLeft) {
  Table table({"plan", ">step", ">memory"});
  table.AddRow({"dp4 tp2", "1.23 s", "71.3 GiB"});
  table.AddRow({"dp8", "12.34 s"});
  table.AddLine();
  table.AddRow({"all", "", "9 B"});
  EXPECT_EQ(table.Text(),
            "plan        step    memory\n"
            "--------------------------\n"
            "dp4 tp2   1.23 s  71.3 GiB\n"
            "dp8      12.34 s\n"
            "--------------------------\n"
            "all                    9 B\n");
}

TEST(Table, IndentsEachLine) {
  Table table({"a"});
  table.AddRow({"b"});
  EXPECT_EQ(table.Text(2), "  a\n  -\n  b\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({"\xc3\xa9", ">n"});  // e with acute
  table.AddRow({"\xc3\xa9\xc3\xa9", "1"});
  table.AddRow({"abc", "2"});
  EXPECT_EQ(table.Text(), "\xc3\xa9    n\n------\n\xc3\xa9\xc3\xa9   1\nabc  2\n");
}

TEST(Table, ShortensLongCellsAndShowsControlBytes) {
  Table table({"name"});
  table.LimitWidth("name", 8);
  table.AddRow({"layers.17.mlp.up"});
  table.AddRow({"ab\x1b[2J"});
  EXPECT_EQ(table.Text(), "name\n--------\nlayer...\nab\\x1...\n");
}

// 9 + 2 + 7 + 2 + 5 = 25 characters in all; without "aliases" 16.
TEST(Table, DropsColumnsInTheGivenOrderWhileLinesAreTooLong) {
  Table table({"name", "aliases", ">count"});
  table.DropFirst({"aliases", "count"});
  table.AddRow({"llama3-8b", "meta", "8"});
  EXPECT_EQ(table.Text(0, 25),
            "name       aliases  count\n"
            "-------------------------\n"
            "llama3-8b  meta         8\n");
  EXPECT_EQ(table.Text(0, 24),
            "name       count\n"
            "----------------\n"
            "llama3-8b      8\n");
  EXPECT_EQ(table.Text(2, 17), "  name\n  ---------\n  llama3-8b\n");
}

// 44 + 2 + 4 characters are 18 too many, so lines of a plan have at most 26.
TEST(Table, BreaksCellsOfAColumnThatWraps) {
  Table table({"plan", ">step"});
  table.Wrap("plan");
  table.AddRow({"dp8 tp1 pp1 1f1b mb4 x8 zero1 recompute-full", "2 s"});
  table.AddRow({"dp1", "3 s"});
  EXPECT_EQ(table.Text(0, 32),
            "plan                     step\n"
            "-----------------------------\n"
            "dp8 tp1 pp1 1f1b mb4 x8   2 s\n"
            "  zero1 recompute-full\n"
            "dp1                       3 s\n");
}

TEST(Table, KeepsEverythingWithoutAWidthAndInCsv) {
  Table table({"name", ">count"});
  table.LimitWidth("name", 5);
  table.DropFirst({"count"});
  table.AddRow({"one, \"two\" and three", "8"});
  table.AddLine();
  EXPECT_THAT(table.Text(0, 0), testing::HasSubstr("one, \"two\" and three      8"));
  EXPECT_EQ(table.Csv(), "name,count\n\"one, \"\"two\"\" and three\",8\n");
}

}  // namespace
}  // namespace foretrain

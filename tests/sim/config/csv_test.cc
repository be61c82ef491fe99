#include "sim/config/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string RefusalOf(std::string_view text, const CsvLimits& limits = {}) {
  const auto table = ParseCsv(text, "t.csv", limits);
  if (table) return "accepted";
  EXPECT_EQ(table.error().code, ErrorCode::kCorruptInput);
  return table.error().message;
}

TEST(Csv, ReadsQuotesCommasAndLineEndsInCells) {
  const auto table = ParseCsv("a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\n,\"\"\n", "t.csv");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_THAT(table->columns, ElementsAre("a", "b"));
  ASSERT_EQ(table->rows.size(), 2U);
  EXPECT_THAT(table->rows[0].cells, ElementsAre("1", "x, \"y\"\nz"));
  EXPECT_EQ(table->rows[0].line, 2);
  EXPECT_THAT(table->rows[1].cells, ElementsAre("", ""));
  EXPECT_EQ(table->rows[1].line, 5);  // the quoted cell spans two lines, and one line is empty
}

TEST(Csv, PassesOverAByteOrderMarkAndNeedsNoLastLineEnd) {
  const auto table = ParseCsv(
      "\xef\xbb\xbf"
      "a\n7",
      "t.csv");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(table->Column("a"), 0);
  EXPECT_EQ(table->Column("b"), -1);
  EXPECT_THAT(table->rows[0].cells, ElementsAre("7"));
}

TEST(Csv, RefusesBrokenTablesWithTheirPlace) {
  EXPECT_THAT(RefusalOf(""), AllOf(HasSubstr("t.csv"), HasSubstr("empty")));
  EXPECT_THAT(RefusalOf("a,b\n1\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("1 cells"), HasSubstr("2 columns")));
  EXPECT_THAT(RefusalOf("a,a\n"), HasSubstr("\"a\" names two columns"));
  EXPECT_THAT(RefusalOf("a,,b\n"), HasSubstr("column 2: the column has no name"));
  EXPECT_THAT(RefusalOf("a\n\"x\n\n"), AllOf(HasSubstr("line 4"), HasSubstr("opened in line 2")));
  EXPECT_THAT(RefusalOf("a,b\n1,\"x\"y\n"),
              AllOf(HasSubstr("line 2, column 2"), HasSubstr("closing quote")));
  EXPECT_THAT(RefusalOf("a\nx\"y\n"), HasSubstr("a quote inside a cell"));
  EXPECT_THAT(RefusalOf(std::string_view("a\n\0\n", 4)), HasSubstr("control character (code 0)"));
}

TEST(Csv, RefusesWhatPassesTheLimits) {
  EXPECT_THAT(RefusalOf("a\nxyz\n", {.cell_bytes = 2}), HasSubstr("longer than 2 bytes"));
  EXPECT_THAT(RefusalOf("a,b,c\n", {.columns = 2}), HasSubstr("more than 2 columns"));
  EXPECT_THAT(RefusalOf("a\n1\n2\n", {.rows = 1}), HasSubstr("more than 1 rows"));
  EXPECT_THAT(RefusalOf("a\n1\n2\n", {.text_bytes = 3}), HasSubstr("at most 3"));
}

TEST(CsvReader, ReadsCellsAndNamesTheirPlaceInRefusals) {
  const auto table = ParseCsv("n,x,flag,text\n12, 1.5 ,1,hi\n-1,,,\n", "t.csv");
  ASSERT_TRUE(table.has_value());
  const CsvReader first(*table, table->rows[0]), second(*table, table->rows[1]);
  EXPECT_EQ(first.Count("n", 1, 100).value(), 12);
  EXPECT_EQ(first.Number("x", 0).value(), 1.5);
  EXPECT_TRUE(first.Flag("flag", false).value());
  EXPECT_EQ(first.Text("text"), "hi");
  EXPECT_EQ(first.Text("nowhere"), "");
  EXPECT_EQ(second.Number("x", 7).value(), 7);
  EXPECT_TRUE(second.Flag("flag", true).value());
  EXPECT_THAT(second.Count("n", 1, 100).error().message,
              AllOf(HasSubstr("t.csv line 3, column n"), HasSubstr("-1"), HasSubstr("1 to 100")));
  EXPECT_THAT(first.Flag("text", false).error().message, HasSubstr("\"hi\" must be 0 or 1"));
  EXPECT_THAT(first.Number("text", 0).error().message, HasSubstr("column text"));
}

}  // namespace
}  // namespace foretrain

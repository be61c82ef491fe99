#include "base/table.h"

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

}  // namespace
}  // namespace foretrain

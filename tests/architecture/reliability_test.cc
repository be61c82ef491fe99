// docs/reliability.md has a row for each promise, and the tests that it names exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/architecture/promises.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

constexpr int kRows = 75;
// Floors: raise them when rows are held or tests are added. A row that loses its tests is noticed.
constexpr int kMinHeld = 71;
constexpr int kMinTests = 160;          // named for any row
constexpr int kMinTestsOfCrashes = 55;  // named for R01 to R30

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

TEST(Reliability, HasARowForEachPromiseWithItsState) {
  const std::vector<PromiseRow> rows = PromiseRows();
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kRows));
  for (int i = 0; i < kRows; ++i) {
    const PromiseRow& row = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(row.number, i + 1);
    EXPECT_TRUE(row.state == "held" || row.state.starts_with("in part: ") ||
                row.state.starts_with("not yet: "))
        << "R" << row.number << ": " << row.state;
    if (!row.state.starts_with("not yet")) {
      EXPECT_FALSE(row.tests.empty()) << "R" << row.number << " is " << row.state << " by no test";
    }
  }
}

TEST(Reliability, NamesTestsThatExist) {
  const std::set<std::string> tests = TestNames();
  for (const PromiseRow& row : PromiseRows()) {
    for (const std::string& test : row.tests) {
      EXPECT_TRUE(tests.contains(test)) << "R" << row.number << " names " << test;
    }
  }
}

// tools/fuzz-coverage measures these.
TEST(Reliability, KnowsTheSourcesThatEachFuzzTargetReads) {
  std::set<std::string> targets;
  const std::string table = TextOf("tests/fuzz/parsers.csv");
  for (const std::string_view line : Split(table, '\n')) {
    const std::vector<std::string_view> cells = Split(line, ',');
    if (cells.size() != 2U || cells[0] == "target") continue;
    targets.insert(std::string(cells[0]) + "_fuzz");
    EXPECT_TRUE(std::filesystem::exists(SourcePath(std::string(cells[1])))) << line;
  }
  std::set<std::string> all;
  for (const std::string& test : TestNames()) {
    if (test.ends_with("_fuzz")) all.insert(test);
  }
  EXPECT_EQ(targets, all);
}

TEST(Reliability, LosesNoTests) {
  std::set<std::string> all, of_crashes;
  int held = 0;
  for (const PromiseRow& row : PromiseRows()) {
    held += row.state == "held" ? 1 : 0;
    all.insert(row.tests.begin(), row.tests.end());
    if (row.number <= 30) of_crashes.insert(row.tests.begin(), row.tests.end());
  }
  std::printf("%d rows held, %zu tests named, %zu of them for R01 to R30\n", held, all.size(),
              of_crashes.size());
  EXPECT_GE(held, kMinHeld);
  EXPECT_GE(std::ssize(all), kMinTests);
  EXPECT_GE(std::ssize(of_crashes), kMinTestsOfCrashes);
}

}  // namespace
}  // namespace foretrain

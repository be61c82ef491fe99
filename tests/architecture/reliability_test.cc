// docs/reliability.md has a row for each promise, and the tests that it names exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

constexpr int kRows = 75;
// Floors: raise them when rows are held or tests are added. A row that loses its tests is noticed.
constexpr int kMinHeld = 56;
constexpr int kMinTests = 160;          // named for any row
constexpr int kMinTestsOfCrashes = 55;  // named for R01 to R30

struct Row {
  int number = 0;
  std::vector<std::string> tests;  // "Subject.Sentence", "Subject.*", "NAME_fuzz", "tools/NAME"
  std::string state;
};

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

// Rows of the page's tables: | R01 | promise | tests | figure | state |.
std::vector<Row> Rows() {
  const std::regex test("`([A-Za-z0-9]+\\.(?:[A-Za-z0-9]+|\\*)|[a-z_]+_fuzz|tools/[a-z-]+)`");
  std::vector<Row> rows;
  const std::string page = TextOf("docs/reliability.md");
  for (const std::string_view line : Split(page, '\n')) {
    if (!line.starts_with("| R")) continue;
    const std::vector<std::string_view> cells = Split(line, '|');
    if (cells.size() != 7U) {
      ADD_FAILURE() << "not five cells: " << line;
      continue;
    }
    Row row;
    row.number = std::stoi(std::string(Trim(cells[1])).substr(1));
    row.state = Trim(cells[5]);
    const std::string tests(cells[3]);
    for (std::sregex_iterator at(tests.begin(), tests.end(), test), end; at != end; ++at) {
      row.tests.push_back((*at)[1].str());
    }
    rows.push_back(row);
  }
  return rows;
}

// "Subject.Sentence" of each test in tests/, "Subject.*" of each subject, "NAME_fuzz" of each fuzz
// target and "tools/NAME" of each tool.
std::set<std::string> Tests() {
  const std::regex test("TEST(?:_F|_P)?\\(\\s*([A-Za-z0-9]+),\\s*([A-Za-z0-9]+)\\)");
  std::set<std::string> tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SourcePath("tests"))) {
    if (entry.path().extension() != ".cc") continue;
    if (entry.path().stem().string().ends_with("_fuzz")) tests.insert(entry.path().stem().string());
    const std::string text =
        TextOf(std::filesystem::relative(entry.path(), SourcePath("")).generic_string());
    for (std::sregex_iterator at(text.begin(), text.end(), test), end; at != end; ++at) {
      tests.insert((*at)[1].str() + "." + (*at)[2].str());
      tests.insert((*at)[1].str() + ".*");
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tools"))) {
    tests.insert("tools/" + entry.path().filename().string());
  }
  return tests;
}

TEST(Reliability, HasARowForEachPromiseWithItsState) {
  const std::vector<Row> rows = Rows();
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kRows));
  for (int i = 0; i < kRows; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
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
  const std::set<std::string> tests = Tests();
  for (const Row& row : Rows()) {
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
  for (const std::string& test : Tests()) {
    if (test.ends_with("_fuzz")) all.insert(test);
  }
  EXPECT_EQ(targets, all);
}

TEST(Reliability, LosesNoTests) {
  std::set<std::string> all, of_crashes;
  int held = 0;
  for (const Row& row : Rows()) {
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

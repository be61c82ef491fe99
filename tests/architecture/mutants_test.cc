// tests/mutants.csv, the table of tools/mutants, fits the sources: each text stands once in its
// file, and docs/reliability.md names the test for the promise.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/architecture/promises.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

constexpr std::size_t kColumns = 7;
const std::string kHeader = "row,file,text,replacement,binary,filter,mistake";

struct Mutant {
  std::string row, file, text, replacement, binary, filter, mistake;
};

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

// Cells of each line. A cell in quotes may hold commas, line ends and doubled quotes.
std::vector<std::vector<std::string>> Cells(std::string_view text) {
  std::vector<std::vector<std::string>> lines(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const bool doubled = quoted && text.substr(i).starts_with("\"\"");
      if (doubled) {
        lines.back().back() += text[i++];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      lines.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      lines.emplace_back(1);
    } else {
      lines.back().back() += c;
    }
  }
  lines.pop_back();  // behind the last line end
  return lines;
}

std::vector<Mutant> Mutants() {
  std::vector<Mutant> mutants;
  const std::string table = TextOf("tests/mutants.csv");
  EXPECT_TRUE(table.starts_with(kHeader + "\n"));
  for (const std::vector<std::string>& cells : Cells(table)) {
    if (cells.size() != kColumns) {
      ADD_FAILURE() << "not seven cells: " << cells.front();
    } else if (cells[0] != "row") {
      mutants.push_back({cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]});
    }
  }
  return mutants;
}

int Count(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// "Subject.Sentence" or "Subject.*" of a filter such as "Matrix/Subject.Sentence/*".
std::string TestOf(const std::string& filter) {
  const std::regex test("[A-Za-z0-9]+\\.(?:[A-Za-z0-9]+|\\*)");
  std::smatch found;
  return std::regex_search(filter, found, test) ? found.str() : "";
}

std::string SubjectOf(const std::string& test) { return test.substr(0, test.find('.')); }

TEST(Mutants, HaveTextsThatStandOnceInTheirFiles) {
  for (const Mutant& mutant : Mutants()) {
    EXPECT_EQ(Count(TextOf(mutant.file), mutant.text), 1) << mutant.file << ": " << mutant.text;
    EXPECT_NE(mutant.text, mutant.replacement) << mutant.file;
    EXPECT_FALSE(mutant.mistake.empty()) << mutant.file << ": " << mutant.text;
  }
}

TEST(Mutants, AreThereForEachPromiseThatIsHeldAndAreJudgedByATestOfIt) {
  std::set<std::string> promises;
  for (const Mutant& mutant : Mutants()) promises.insert(mutant.row);
  std::map<std::string, std::set<std::string>> tests;  // by promise
  for (const PromiseRow& row : PromiseRows()) {
    const std::string name = (row.number < 10 ? "R0" : "R") + std::to_string(row.number);
    tests[name] = {row.tests.begin(), row.tests.end()};
    if (row.state == "held") {
      EXPECT_TRUE(promises.contains(name)) << name << " is held and has no mutant";
    }
  }
  const std::map<std::string, std::set<std::string>> binaries = TestBinaries();
  for (const Mutant& mutant : Mutants()) {
    const std::string test = TestOf(mutant.filter);
    const std::string subject = SubjectOf(test) + ".*";
    bool named = tests[mutant.row].contains(test) || tests[mutant.row].contains(subject);
    for (const std::string& one : tests[mutant.row]) {
      named = named || (test == subject && SubjectOf(one) == SubjectOf(test));
    }
    EXPECT_TRUE(named) << mutant.row << " does not name " << test;
    const auto binary = binaries.find(test);
    EXPECT_TRUE(binary != binaries.end() && binary->second.contains(mutant.binary))
        << test << " is not in " << mutant.binary;
  }
}

}  // namespace
}  // namespace foretrain

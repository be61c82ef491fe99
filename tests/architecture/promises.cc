#include "tests/architecture/promises.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string_view>

#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

// "traces_slow_tests" for tests/traces/store/kill_slow_test.cc.
std::string BinaryOf(const fs::path& path) {
  const std::string folder = path.lexically_relative("tests").begin()->string();
  const std::string stem = path.stem().string();
  for (const std::string label : {"slow", "nightly", "gpu", "torch"}) {
    if (stem.ends_with("_" + label + "_test")) return folder + "_" + label + "_tests";
  }
  return folder + "_tests";
}

// Paths of all sources in tests/, in the repository.
std::vector<fs::path> TestSources() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(SourcePath("tests"))) {
    if (entry.path().extension() != ".cc") continue;
    paths.push_back(fs::relative(entry.path(), SourcePath("")));
  }
  return paths;
}

}  // namespace

std::vector<PromiseRow> PromiseRows() {
  const std::regex test("`([A-Za-z0-9]+\\.(?:[A-Za-z0-9]+|\\*)|[a-z_]+_fuzz|tools/[a-z-]+)`");
  std::vector<PromiseRow> rows;
  const std::string page = TextOf("docs/reliability.md");
  for (const std::string_view line : Split(page, '\n')) {
    if (!line.starts_with("| R")) continue;
    const std::vector<std::string_view> cells = Split(line, '|');
    if (cells.size() != 7U) {
      ADD_FAILURE() << "not five cells: " << line;
      continue;
    }
    PromiseRow row;
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

std::map<std::string, std::set<std::string>> TestBinaries() {
  const std::regex test("TEST(?:_F|_P)?\\(\\s*([A-Za-z0-9]+),\\s*([A-Za-z0-9]+)\\)");
  std::map<std::string, std::set<std::string>> tests;
  for (const fs::path& path : TestSources()) {
    const std::string text = TextOf(path.generic_string());
    for (std::sregex_iterator at(text.begin(), text.end(), test), end; at != end; ++at) {
      tests[(*at)[1].str() + "." + (*at)[2].str()].insert(BinaryOf(path));
      tests[(*at)[1].str() + ".*"].insert(BinaryOf(path));
    }
  }
  return tests;
}

std::set<std::string> TestNames() {
  std::set<std::string> names;
  for (const auto& [name, binaries] : TestBinaries()) names.insert(name);
  for (const fs::path& path : TestSources()) {
    if (path.stem().string().ends_with("_fuzz")) names.insert(path.stem().string());
  }
  for (const auto& entry : fs::directory_iterator(SourcePath("tools"))) {
    names.insert("tools/" + entry.path().filename().string());
  }
  return names;
}

}  // namespace foretrain

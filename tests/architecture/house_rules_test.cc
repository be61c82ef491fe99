// Rules of docs/style.md that can be counted: size of folders, comments, and paths that pages name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>
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

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kFolders{
    "base", "traces", "sim", "kernels", "profiler", "runtime", "ui", "app", "tests"};
constexpr int kMaxFiles = 25;

// Folders whose files are alike and are found by name, and so may be many: presets, and inputs of
// one fuzz target or of one parser.
bool HoldsData(std::string_view folder) {
  return folder == "sim/config/presets" || folder.starts_with("tests/data") ||
         folder.starts_with("tests/fuzz/seeds");
}

std::vector<std::string> FilesBelow(std::string_view folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(SourcePath(folder))) {
    if (entry.is_regular_file()) {
      paths.push_back(fs::relative(entry.path(), SourcePath("")).generic_string());
    }
  }
  return paths;
}

bool IsSource(std::string_view path) {
  return path.ends_with(".h") || path.ends_with(".cc") || path.ends_with(".cu") ||
         path.ends_with(".cuh");
}

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

TEST(Folders, HoldAtMost25Files) {
  std::map<std::string, int> files;
  for (const std::string_view folder : kFolders) {
    for (const std::string& path : FilesBelow(folder)) {
      ++files[fs::path(path).parent_path().generic_string()];
    }
  }
  for (const auto& [folder, count] : files) {
    if (HoldsData(folder)) continue;
    EXPECT_LE(count, kMaxFiles) << folder;
  }
}

// Two types of one name in a namespace break the rule of one definition: the linker keeps one of
// the functions that the compiler makes for both, such as those of their vectors.
TEST(Types, HaveOneDefinition) {
  const std::regex opens("namespace ([A-Za-z0-9_:]*) ?\\{.*"),
      defines("(?:struct|class|union)\\s+(\\w+)\\s*(?:final)?\\s*(?::[^:;][^;]*)?\\{.*");
  std::map<std::string, std::set<std::string>> files;  // by namespace and name
  for (const std::string_view folder : kFolders) {
    if (folder == "tests") continue;
    for (const std::string& path : FilesBelow(folder)) {
      if (!path.ends_with(".h") && !path.ends_with(".cc")) continue;
      const std::string text = TextOf(path);
      std::string space;
      bool unnamed = false;
      for (const std::string_view line : Split(text, '\n')) {
        if (line.starts_with("}  // namespace")) unnamed = false;
        if (line.empty() || line.front() == ' ') continue;
        const std::string whole(line);
        std::smatch found;
        if (std::regex_match(whole, found, opens)) {
          unnamed = found[1].length() == 0;
          if (!unnamed) space = found[1];
        } else if (!unnamed && std::regex_match(whole, found, defines)) {
          files[space + "::" + found[1].str()].insert(path);
        }
      }
    }
  }
  EXPECT_GT(files.size(), 1000U);
  for (const auto& [type, paths] : files) {
    const std::vector<std::string> list(paths.begin(), paths.end());
    EXPECT_EQ(list.size(), 1U) << type << " is defined in " << Join(list, ", ");
  }
}

// A comment names its subject first. The few that begin otherwise are labels of fields.
TEST(Comments, SeldomOpenWithOfWhatOrWhose) {
  std::vector<std::string> openers;
  for (const std::string_view folder : kFolders) {
    for (const std::string& path : FilesBelow(folder)) {
      if (!IsSource(path)) continue;
      std::string_view last;
      const std::string text = TextOf(path);
      for (const std::string_view line : Split(text, '\n')) {
        const std::string_view rest = Trim(line);
        const bool goes_on = last.starts_with("//");
        last = rest;
        if (goes_on || !rest.starts_with("// ")) continue;
        for (const std::string_view word : {"// Of ", "// What ", "// Whose "}) {
          if (rest.starts_with(word)) openers.push_back(path + ": " + std::string(rest));
        }
      }
    }
  }
  EXPECT_LE(openers.size(), 20U) << Join(openers, "\n");
}

// Whatever looks like a path from the root in a page exists. NAME and FAMILY stand for any.
TEST(Pages, NameFilesThatExist) {
  const std::regex path(
      "[`(]((?:base|traces|sim|kernels|profiler|runtime|ui|app|tests|tools|docs|"
      "cmake)/[A-Za-z0-9_./-]+\\.[a-z]+)[`)#]");
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md", "tests/README.md"};
  for (const std::string& page : FilesBelow("docs")) {
    if (page.ends_with(".md")) pages.push_back(page);
  }
  for (const std::string& page : pages) {
    const std::string text = TextOf(page);
    for (std::sregex_iterator at(text.begin(), text.end(), path), end; at != end; ++at) {
      const std::string name = (*at)[1].str();
      if (name.find("NAME") != name.npos || name.find("FAMILY") != name.npos) continue;
      EXPECT_TRUE(fs::exists(SourcePath(name)) ||
                  fs::exists(fs::path(SourcePath(page)).parent_path() / name))
          << page << " names " << name << ", which does not exist";
    }
  }
}

}  // namespace
}  // namespace foretrain

// Texts of SQL are constants; data reaches SQLite by bound parameters alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array<std::string_view, 8> kFolders{"base",     "traces",  "sim", "kernels",
                                                   "profiler", "runtime", "ui",  "app"};

std::vector<std::string> SourcesBelow(std::string_view folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SourcePath(folder))) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".h" || extension == ".cc") {
      paths.push_back(std::filesystem::relative(entry.path(), SourcePath("")).generic_string());
    }
  }
  return paths;
}

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

// The arguments of the call whose opening parenthesis is at `at`, without the contents of their
// string literals.
std::string ArgumentsAt(std::string_view text, std::size_t at) {
  std::string arguments;
  int depth = 0;
  bool in_literal = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (in_literal) {
      if (c == '\\') {
        ++at;
      } else if (c == '"') {
        in_literal = false;
      }
      continue;
    }
    if (c == '"') in_literal = true;
    if (c == '(') ++depth;
    arguments += c;
    if (c == ')' && --depth == 0) break;
  }
  return arguments;
}

// True if the arguments put a text together.
bool Builds(const std::string& arguments) {
  constexpr std::array<std::string_view, 5> kSigns{"+", "format", "append", "to_string", "Join"};
  return std::any_of(kSigns.begin(), kSigns.end(), [&arguments](std::string_view sign) {
    return arguments.find(sign) != arguments.npos;
  });
}

// The files of those calls with SQL whose text is put together. SQLite is used in `traces` alone.
std::vector<std::string> CallsWithBuiltSql() {
  std::vector<std::string> found;
  for (const std::string& path : SourcesBelow("traces")) {
    const std::string text = TextOf(path);
    for (const std::string_view call : {"Prepare(", "Execute(", "->Number(", ".Number("}) {
      for (std::size_t at = text.find(call); at != text.npos; at = text.find(call, at + 1)) {
        if (Builds(ArgumentsAt(text, at + call.size() - 1))) found.push_back(path);
      }
    }
  }
  return found;
}

// The importer of Nsight Systems names the columns that a table has, from a list of its own.
TEST(Sql, IsNeverPutTogetherFromData) {
  constexpr const char* kNsys = "traces/import/nsys.cc";
  EXPECT_THAT(CallsWithBuiltSql(), ElementsAre(kNsys, kNsys, kNsys));
}

TEST(Sql, ReachesSqliteThroughOneFile) {
  std::vector<std::string> found;
  for (const std::string_view folder : kFolders) {
    for (const std::string& path : SourcesBelow(folder)) {
      const std::string text = TextOf(path);
      for (const std::string_view call : {"sqlite3_exec(", "sqlite3_prepare", "sqlite3_mprintf("}) {
        if (path != "traces/store/sqlite.cc" && text.find(call) != text.npos) found.push_back(path);
      }
    }
  }
  EXPECT_THAT(found, IsEmpty());
}

// A format from a file could read memory or throw.
TEST(Formats, AreConstants) {
  std::vector<std::string> found;
  for (const std::string_view folder : kFolders) {
    for (const std::string& path : SourcesBelow(folder)) {
      const std::string text = TextOf(path);
      for (const std::string_view call : {"fmt::runtime", "fmt::vformat", "std::vformat"}) {
        if (text.find(call) != text.npos) found.push_back(path);
      }
    }
  }
  EXPECT_THAT(found, IsEmpty());
}

}  // namespace
}  // namespace foretrain

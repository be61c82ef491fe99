// Pages link to files that exist, the README lists all pages, and the glossary has the form that
// the desktop reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// Paths in the repository of all pages, sorted.
std::vector<std::string> Pages() {
  std::vector<std::string> pages{"CHANGELOG.md", "CONTRIBUTING.md", "README.md", "tests/README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SourcePath("docs"))) {
    if (entry.path().extension() == ".md") {
      pages.push_back(std::filesystem::relative(entry.path(), SourcePath("")).generic_string());
    }
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

bool Exists(const std::string& path) { return std::filesystem::exists(SourcePath(path)); }

// The first group of every match of `pattern`.
std::vector<std::string> Matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    found.push_back((*at)[1].str());
  }
  return found;
}

TEST(Pages, LinkToFilesThatExist) {
  const std::regex link("\\]\\(([^)#:]+)(#[^)]*)?\\)");
  for (const std::string& page : Pages()) {
    const std::filesystem::path folder = std::filesystem::path(page).parent_path();
    for (const std::string& target : Matches(TextOf(page), link)) {
      EXPECT_TRUE(Exists((folder / target).lexically_normal().generic_string()))
          << page << " links to " << target;
    }
  }
}

TEST(Pages, AreAllListedInTheReadme) {
  const std::string readme = TextOf("README.md");
  for (const std::string& page : Pages()) {
    if (page == "README.md") continue;
    EXPECT_THAT(readme, testing::HasSubstr("](" + page + ")"));
  }
}

TEST(Glossary, HasOneParagraphForEachTermInOrder) {
  std::istringstream text(TextOf("docs/glossary.md"));
  const std::regex entry("\\*\\*([^*]+)\\*\\*: .+\\.( \\(.+\\))?");
  std::vector<std::string> terms;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("**")) continue;
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, entry)) << line;
    std::string term = parts[1].str();
    std::transform(term.begin(), term.end(), term.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    terms.push_back(term);
  }
  EXPECT_GE(terms.size(), 80U);
  EXPECT_TRUE(std::is_sorted(terms.begin(), terms.end()));
  EXPECT_EQ(std::set<std::string>(terms.begin(), terms.end()).size(), terms.size());
}

}  // namespace
}  // namespace foretrain

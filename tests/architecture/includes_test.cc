#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/architecture/include_rules.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::array<std::string_view, 8> kFolders{"base",     "traces",  "sim", "kernels",
                                                   "profiler", "runtime", "ui",  "app"};

// Paths in the repository of all our sources, sorted.
std::vector<std::string> Sources() {
  std::vector<std::string> paths;
  for (const std::string_view folder : kFolders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(SourcePath(folder))) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh") {
        paths.push_back(std::filesystem::relative(entry.path(), SourcePath("")).generic_string());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string TextOf(const std::string& path) {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath(path), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

std::string WhyNotQuoted(std::string_view path, std::string header) {
  return WhyNot(path, {1, std::move(header), true});
}
std::string WhyNotAngled(std::string_view path, std::string header) {
  return WhyNot(path, {1, std::move(header), false});
}

TEST(IncludeRules, FollowThePicture) {
  EXPECT_THAT(WhyNotQuoted("sim/a.cc", "base/result.h"), IsEmpty());
  EXPECT_THAT(WhyNotQuoted("sim/a.cc", "traces/kinds.h"), IsEmpty());
  EXPECT_THAT(WhyNotQuoted("sim/a.cc", "sim/config/plan/plan.h"), IsEmpty());
  EXPECT_THAT(WhyNotQuoted("runtime/a.cc", "kernels/cpu/gemm.h"), IsEmpty());
  EXPECT_THAT(WhyNotQuoted("app/a.cc", "ui/view.h"), IsEmpty());
  EXPECT_THAT(WhyNotQuoted("base/a.cc", "traces/kinds.h"),
              HasSubstr("base may not include traces"));
  EXPECT_THAT(WhyNotQuoted("sim/a.cc", "runtime/run.h"), HasSubstr("no arrow"));
  EXPECT_THAT(WhyNotQuoted("ui/a.cc", "runtime/run.h"), HasSubstr("no arrow"));
  EXPECT_THAT(WhyNotQuoted("kernels/a.cc", "traces/kinds.h"), HasSubstr("no arrow"));
  EXPECT_THAT(WhyNotQuoted("traces/a.cc", "tests/paths.h"), HasSubstr("no arrow"));
  EXPECT_THAT(WhyNotQuoted("base/a.cc", "result.h"), HasSubstr("root"));
  EXPECT_THAT(WhyNotAngled("base/a.cc", "base/result.h"), HasSubstr("quotes"));
}

TEST(IncludeRules, FenceThirdPartyHeaders) {
  EXPECT_THAT(WhyNotAngled("kernels/cuda/a.cu", "cuda_runtime.h"), IsEmpty());
  EXPECT_THAT(WhyNotAngled("runtime/cuda/a.cc", "nccl.h"), IsEmpty());
  EXPECT_THAT(WhyNotAngled("runtime/a.cc", "cuda_runtime.h"), HasSubstr("CUDA"));
  EXPECT_THAT(WhyNotAngled("traces/store.cc", "sqlite3.h"), IsEmpty());
  EXPECT_THAT(WhyNotAngled("traces/store.h", "sqlite3.h"), HasSubstr("header"));
  EXPECT_THAT(WhyNotAngled("ui/a.cc", "sqlite3.h"), HasSubstr("SQLite"));
  EXPECT_THAT(WhyNotAngled("ui/a.h", "imgui.h"), IsEmpty());
  EXPECT_THAT(WhyNotAngled("sim/a.cc", "imgui.h"), HasSubstr("ImGui"));
  EXPECT_THAT(WhyNotAngled("sim/a.h", "nlohmann/json.hpp"), HasSubstr("header"));
  EXPECT_THAT(WhyNotAngled("sim/a.cc", "chrono"), HasSubstr("no clock"));
  EXPECT_THAT(WhyNotQuoted("sim/a.cc", "base/io/file_system.h"), HasSubstr("no clock"));
  EXPECT_THAT(WhyNotAngled("base/a.h", "vector"), IsEmpty());
}

TEST(IncludeRules, FindIncludeLines) {
  const auto includes =
      IncludesOf("#pragma once\n#include <a>\n  #  include \"b/c.h\" // x\n// #include <d>\n");
  ASSERT_EQ(includes.size(), 2U);
  EXPECT_EQ(includes[0].header, "a");
  EXPECT_FALSE(includes[0].quoted);
  EXPECT_EQ(includes[1].header, "b/c.h");
  EXPECT_EQ(includes[1].line, 3);
  EXPECT_TRUE(includes[1].quoted);
}

TEST(Sources, IncludeOnlyWhatTheyMay) {
  const std::vector<std::string> paths = Sources();
  ASSERT_GT(paths.size(), 20U);
  for (const std::string& path : paths) {
    for (const IncludeLine& include : IncludesOf(TextOf(path))) {
      const std::string why = WhyNot(path, include);
      EXPECT_THAT(why, IsEmpty()) << path << ":" << include.line << ": " << include.header << " "
                                  << why;
    }
  }
}

// Such a header serves the sources of its folder; included by another header it would slow down
// every user.
TEST(Sources, HeadersThatIncludeFmtAreIncludedBySourcesAlone) {
  std::set<std::string> with_fmt;
  for (const std::string& path : Sources()) {
    if (!path.ends_with(".h")) continue;
    for (const IncludeLine& include : IncludesOf(TextOf(path))) {
      if (include.header.starts_with("fmt/")) with_fmt.insert(path);
    }
  }
  for (const std::string& path : Sources()) {
    if (!path.ends_with(".h")) continue;
    for (const IncludeLine& include : IncludesOf(TextOf(path))) {
      EXPECT_FALSE(with_fmt.contains(include.header)) << path << " includes " << include.header;
    }
  }
}

TEST(Sources, OfSimReadNoEnvironmentAndNoUnseededRandomNumber) {
  for (const std::string& path : Sources()) {
    if (!path.starts_with("sim/")) continue;
    const std::string text = TextOf(path);
    for (const std::string_view word : {"getenv", "random_device", "std::rand", "time(nullptr)"}) {
      EXPECT_EQ(text.find(word), std::string::npos) << path << ": " << word;
    }
  }
}

TEST(Sources, HeadersAreGuarded) {
  for (const std::string& path : Sources()) {
    if (!path.ends_with(".h") && !path.ends_with(".cuh")) continue;
    const std::string text = TextOf(path);
    EXPECT_TRUE(text.find("#pragma once") != std::string::npos ||
                text.find("#ifndef FORETRAIN_") != std::string::npos)
        << path;
  }
}

}  // namespace
}  // namespace foretrain

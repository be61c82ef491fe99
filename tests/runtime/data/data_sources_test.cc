#include "runtime/data/data_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/fault_file_system.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using Names = std::vector<std::string>;

class DataSources : public testing::Test {
 protected:
  DataSources() {
    EXPECT_TRUE(files_.CreateDirectories("shards").has_value());
    EXPECT_TRUE(files_.CreateDirectories("empty").has_value());
    for (const char* const name :
         {"a.txt", "b.txt", "a,b.txt", "c:3", "m.bin", "m.idx", "shards/2.bin", "shards/1.bin",
          "shards/1.idx", "shards/.hidden", "shards/notes.txt"}) {
      files_.Put(name, "text");
    }
  }

  std::vector<DataSource> Sources(const std::string& text) {
    auto sources = ParseDataSources(files_, text);
    EXPECT_TRUE(sources.has_value()) << sources.error().message;
    return sources.has_value() ? *std::move(sources) : std::vector<DataSource>{{}};
  }
  std::string Refusal(const std::string& text) {
    const auto sources = ParseDataSources(files_, text);
    EXPECT_FALSE(sources.has_value()) << text;
    if (sources.has_value()) return "";
    EXPECT_EQ(sources.error().code, ErrorCode::kInvalidArgument);
    return sources.error().message;
  }

  FaultFileSystem files_;
};

TEST_F(DataSources, AreOneStreamWithoutWeights) {
  const auto sources = Sources("a.txt, b.txt");
  ASSERT_EQ(sources.size(), 1U);
  EXPECT_EQ(sources[0].files, (Names{"a.txt", "b.txt"}));
}

TEST_F(DataSources, AreMixedByWeights) {
  const auto sources = Sources("a.txt:0.7,shards/:3e9");
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].weight, 0.7);
  EXPECT_EQ(sources[1].weight, 3e9);
  EXPECT_EQ(sources[1].files, (Names{"shards/1.bin", "shards/2.bin", "shards/notes.txt"}));
}

TEST_F(DataSources, ExpandFoldersAndPatternsByName) {
  EXPECT_EQ(Sources("shards")[0].files,
            (Names{"shards/1.bin", "shards/2.bin", "shards/notes.txt"}));
  EXPECT_EQ(Sources("shards/*.bin")[0].files, (Names{"shards/1.bin", "shards/2.bin"}));
  EXPECT_EQ(Sources("[ab].t?t")[0].files, (Names{"a.txt", "b.txt"}));
  EXPECT_EQ(Sources("m")[0].files, (Names{"m.bin"}));
}

TEST_F(DataSources, TakeNamesThatExistAsTheyAre) {
  EXPECT_EQ(Sources("a,b.txt")[0].files, (Names{"a,b.txt"}));
  EXPECT_EQ(Sources("c:3")[0].files, (Names{"c:3"}));
  EXPECT_EQ(Sources("c:3:2")[0].files, (Names{"c:3"}));
}

TEST_F(DataSources, RefuseWithASentence) {
  EXPECT_THAT(Refusal("missing"), HasSubstr("missing: no such file or folder"));
  EXPECT_THAT(Refusal("empty"), HasSubstr("holds no file"));
  EXPECT_THAT(Refusal("shards/*.jsonl"), HasSubstr("no file has a name of this pattern"));
  EXPECT_THAT(Refusal("a.txt,,b.txt"), HasSubstr("a path is missing"));
  EXPECT_THAT(Refusal("a.txt:0"), HasSubstr("a weight is above 0"));
  EXPECT_THAT(Refusal("a.txt:-1"), HasSubstr("weight of a.txt:-1"));
  EXPECT_THAT(Refusal("a.txt:x"), HasSubstr("weight of a.txt:x"));
  EXPECT_THAT(Refusal("a.txt:1,b.txt"), HasSubstr("write b.txt:WEIGHT"));
  EXPECT_THAT(Refusal("a.txt,b.txt:1"), HasSubstr("b.txt has a weight and the paths before"));
}

}  // namespace
}  // namespace foretrain

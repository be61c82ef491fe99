#include "app/cli/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HubCache : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(files_.CreateDirectories(ParentFolder(Path(path))).has_value());
    ASSERT_TRUE(WriteFileAtomically(files_, Path(path), text).has_value());
  }
  std::string Path(const std::string& path) const { return folder_.path() + "/" + path; }
  std::string Refusal(const std::string& name) {
    const auto found = FindInHubCache(files_, folder_.path(), name);
    return found ? "found " + *found : found.error().message;
  }

  TemporaryFolder folder_;
  PosixFileSystem files_;
};

TEST_F(HubCache, FindsTheSnapshotThatMainNames) {
  Put("models--org--small/snapshots/aaa/config.json", "{}");
  Put("models--org--small/snapshots/bbb/config.json", "{}");
  EXPECT_THAT(Refusal("org/small"), HasSubstr("several snapshots and none is main"));
  Put("models--org--small/refs/main", "bbb\n");
  const auto found = FindInHubCache(files_, folder_.path(), "org/small");
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(*found, Path("models--org--small/snapshots/bbb/config.json"));
}

TEST_F(HubCache, TakesTheOnlySnapshotWithAConfig) {
  Put("models--org--one/snapshots/aaa/config.json", "{}");
  Put("models--org--one/snapshots/bbb/weights", "");
  Put("models--org--one/refs/main", "../../../etc");
  EXPECT_EQ(Refusal("org/one"), "found " + Path("models--org--one/snapshots/aaa/config.json"));
}

TEST_F(HubCache, SaysWhereItLooked) {
  EXPECT_THAT(Refusal("org/none"), AllOf(HasSubstr("model org/none"), HasSubstr(folder_.path()),
                                         HasSubstr("give the path of its config.json")));
  Put("models--org--empty/refs/main", "aaa");
  EXPECT_THAT(Refusal("org/empty"), HasSubstr("no snapshot with a config.json"));
}

TEST(HubName, HasAnOrganisationAndAName) {
  for (const char* name : {"meta-llama/Llama-3.1-8B", "org/a.b"}) {
    EXPECT_TRUE(LooksLikeHubName(name)) << name;
  }
  for (const char* name : {"llama", "/etc/passwd", "a/b/c", "../x", "a/b.json", "a--b/c", "a/"}) {
    EXPECT_FALSE(LooksLikeHubName(name)) << name;
  }
}

TEST_F(HubCache, ServesTheCommandLine) {
  Put("hub/models--org--gpt/snapshots/aaa/config.json",
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 32,
          "vocab_size": 256})");
  const ProgramEnd found =
      RunCommand(folder_.path(), "HF_HUB_CACHE= HF_HOME=. '" + ForetrainBinary() +
                                     "' predict --model org/gpt --ranks 1 --json");
  EXPECT_EQ(found.code, 0) << found.errors;
  const ProgramEnd missing =
      RunCommand(folder_.path(), "HF_HUB_CACHE= HF_HOME=. '" + ForetrainBinary() +
                                     "' predict --model org/other --ranks 1 --json");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("is no model of that name"));
}

}  // namespace
}  // namespace foretrain

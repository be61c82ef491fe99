#include "runtime/data/token_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace foretrain {
namespace {

using testing::HasSubstr;

// A folder that is removed after the test.
class TokenFiles : public testing::Test {
 protected:
  TokenFiles() : folder_(testing::TempDir() + "token_data." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TokenFiles() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  // A shard as llm.c writes it, with `count` in the header.
  static std::string Shard(const std::vector<std::uint16_t>& tokens, std::int32_t count,
                           std::int32_t version = 1) {
    std::vector<std::int32_t> header(256, 0);
    header[0] = 20240520;
    header[1] = version;
    header[2] = count;
    std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
    return bytes;
  }

  Error OpenError(const std::string& path, std::int64_t vocab = 256) {
    auto opened = TokenData::Open(files_, path, vocab, plan_);
    EXPECT_FALSE(opened.has_value());
    return opened.has_value() ? Error{} : opened.error();
  }

  std::string folder_;
  PosixFileSystem files_;
  Plan plan_{.sequence = 4, .global_batch = 2, .micro_batch = 1};
};

TEST_F(TokenFiles, ReadsTextByteByByteWithTheNextByteAsTarget) {
  auto data = TokenData::Open(files_, Write("a.txt", "abcdefghijklm\xff"), 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  std::vector<std::int32_t> ids(4), targets(4);
  ASSERT_TRUE((*data)->Fill({0, 0, 1}, ids, targets).has_value());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{'f', 'g', 'h', 'i'}));
  std::vector<std::int32_t> none;
  ASSERT_TRUE((*data)->Fill({0, 0, 0}, none, targets).has_value());
  EXPECT_EQ(targets.front(), 'b');
}

// Samples of 8 tokens in chunks of 2: rank 0 gets the first and last chunk, rank 1 the middle ones.
TEST_F(TokenFiles, GivesContextParallelRanksTheirChunksOfEachSample) {
  plan_ = {.cp = 2, .sequence = 8, .global_batch = 2, .micro_batch = 2};
  auto data = TokenData::Open(files_, Write("a.txt", "abcdefghijklmnopqrstuvwxyz"), 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  const auto text = [&](int cp, bool target) {
    std::vector<std::int32_t> ids(8), targets(8);
    EXPECT_TRUE((*data)->Fill({0, 0, 0, cp}, ids, targets).has_value());
    const std::vector<std::int32_t>& tokens = target ? targets : ids;
    return std::string(tokens.begin(), tokens.end());
  };
  EXPECT_EQ(text(0, false), "abghijop");
  EXPECT_EQ(text(0, true), "bchijkpq");
  EXPECT_EQ(text(1, false), "cdefklmn");
  EXPECT_EQ(text(1, true), "defglmno");
}

TEST_F(TokenFiles, ReadsAShardOfSixteenBitTokens) {
  std::vector<std::uint16_t> tokens(20);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{50'000});
  auto data = TokenData::Open(files_, Write("a.bin", Shard(tokens, 20)), 50'304, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ((*data)->tokens(), 20);
  std::vector<std::int32_t> ids(4), targets(4);
  ASSERT_TRUE((*data)->Fill({1, 0, 0}, ids, targets).has_value());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{50'008, 50'009, 50'010, 50'011}));
  EXPECT_EQ(targets.back(), 50'012);
}

// For any dp and micro-batch, a step has the same samples in the same global order.
TEST_F(TokenFiles, GivesEveryPlanTheSameGlobalBatch) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7 % 251);
  const auto batch = [&](int dp, std::int64_t micro_batch, std::int64_t step) {
    Plan plan{.dp = dp, .sequence = 8, .global_batch = 8, .micro_batch = micro_batch};
    auto data = TokenData::FromText(text, "text", 256, plan);
    EXPECT_TRUE(data.has_value());
    std::vector<std::int32_t> all;
    for (int d = 0; d < dp; ++d) {
      for (int mb = 0; mb < plan.MicroBatches(); ++mb) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(8 * micro_batch)), targets(ids);
        EXPECT_TRUE((*data)->Fill({step, d, mb}, ids, targets).has_value());
        all.insert(all.end(), ids.begin(), ids.end());
        all.insert(all.end(), targets.begin(), targets.end());
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  for (const std::int64_t step : {0, 3, 500}) {
    EXPECT_EQ(batch(1, 1, step), batch(4, 1, step));
    EXPECT_EQ(batch(1, 1, step), batch(2, 2, step));
    EXPECT_EQ(batch(1, 1, step), batch(1, 8, step));
  }
  EXPECT_NE(batch(1, 1, 0), batch(1, 1, 1));
}

TEST_F(TokenFiles, StaysWithinTheDataForManySteps) {
  // The shortest accepted text: one batch of 8, the token after it, and one more.
  auto data = TokenData::FromText("0123456789", "text", 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  std::vector<std::int32_t> ids(4), targets(4);
  for (std::int64_t step = 0; step < 100; ++step) {
    for (int mb = 0; mb < 2; ++mb) {
      ASSERT_TRUE((*data)->Fill({step, 0, mb}, ids, targets).has_value());
      for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(targets[i], ids[i] + 1);
    }
  }
}

TEST_F(TokenFiles, RefusesWhatCannotBeTrainedOn) {
  EXPECT_EQ(OpenError(folder_ + "/missing").code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(OpenError(Write("empty", "")).message, HasSubstr("is empty"));
  EXPECT_THAT(OpenError(Write("short", "abcdefghi")).message, HasSubstr("9 tokens"));
  EXPECT_THAT(OpenError(Write("text", "abcdefghijkl"), 100).message,
              HasSubstr("vocabulary of 256 or more and the model has 100"));
  EXPECT_EQ(OpenError(folder_).code, ErrorCode::kInvalidArgument) << "a folder";
}

TEST_F(TokenFiles, RefusesDamagedShards) {
  const std::vector<std::uint16_t> tokens(20, 7);
  const auto error = [&](const std::string& bytes, std::int64_t vocab = 256) {
    return OpenError(Write("shard.bin", bytes), vocab);
  };
  EXPECT_THAT(error(Shard(tokens, 21)).message,
              HasSubstr("says 21 tokens of 2 bytes and 40 bytes follow"));
  EXPECT_EQ(error(Shard(tokens, 21)).code, ErrorCode::kCorruptInput);
  EXPECT_EQ(error(Shard(tokens, -1)).code, ErrorCode::kCorruptInput);
  EXPECT_EQ(error(Shard(tokens, 20) + "x").code, ErrorCode::kCorruptInput) << "half a token more";
  EXPECT_THAT(error(Shard(tokens, 20, 7)).message, HasSubstr("version 7"));
  std::vector<std::uint16_t> outside = tokens;
  outside[13] = 300;
  EXPECT_THAT(error(Shard(outside, 20)).message, HasSubstr("token 13 is 300"));
}

}  // namespace
}  // namespace foretrain

#include "runtime/data/token_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "runtime/data/token_writer.h"

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
    auto opened = TokenData::Open(files_, {.sources = path}, vocab, plan_);
    EXPECT_FALSE(opened.has_value());
    return opened.has_value() ? Error{} : opened.error();
  }

  std::string folder_;
  PosixFileSystem files_;
  Plan plan_{.sequence = 4, .global_batch = 2, .micro_batch = 1};
};

TEST_F(TokenFiles, ReadsTextByteByByteWithTheNextByteAsTarget) {
  auto data = TokenData::Open(files_, {.sources = Write("a.txt", "abcdefghijklm\xff")}, 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  std::vector<std::int32_t> ids(4), targets(4);
  ASSERT_TRUE((*data)->Fill({0, 0, 1}, ids, targets).has_value());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{'f', 'g', 'h', 'i'}));
  std::vector<std::int32_t> none;
  ASSERT_TRUE((*data)->Fill({0, 0, 0}, none, targets).has_value());
  EXPECT_EQ(targets.front(), 'b');
}

// Tokens 'b' end documents; each sample begins one.
TEST_F(TokenFiles, SayWhereTheDocumentOfEachTokenBegins) {
  const std::string path = Write("a.txt", "abbaaaabaaabaaaa");
  plan_ = {.sequence = 6, .global_batch = 2, .micro_batch = 2, .documents = true};
  auto data = TokenData::Open(files_, {.sources = path, .document_end = 'b'}, 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_THAT((*data)->Describe(), HasSubstr("documents end with token 98"));
  std::vector<std::int32_t> starts(12);
  ASSERT_TRUE((*data)->FillDocumentStarts({}, starts).has_value());
  EXPECT_EQ(starts, (std::vector<std::int32_t>{0, 0, 2, 3, 3, 3, 0, 0, 2, 2, 2, 2}));
  // Runs that end documents elsewhere train otherwise, so they have other digests.
  auto other = TokenData::Open(files_, {.sources = path, .document_end = 'a'}, 256, plan_);
  plan_.documents = false;
  auto whole = TokenData::Open(files_, {.sources = path}, 256, plan_);
  EXPECT_NE((*data)->Digest(), (*other)->Digest());
  EXPECT_NE((*data)->Digest(), (*whole)->Digest());
  ASSERT_TRUE((*whole)->FillDocumentStarts({}, starts).has_value());
  EXPECT_EQ(starts, std::vector<std::int32_t>(12, 0));
}

// Samples "abbaaaab" and "aaabaaaa". Rank 0 of two holds tokens 0, 1, 6 and 7 of each.
TEST_F(TokenFiles, SayWhereDocumentsOfSplitSamplesBegin) {
  const std::string path = Write("a.txt", "abbaaaabaaabaaaaa");
  plan_ = {.cp = 2, .sequence = 8, .global_batch = 2, .micro_batch = 2, .documents = true};
  auto data = TokenData::Open(files_, {.sources = path, .document_end = 'b'}, 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  std::vector<std::int32_t> starts(8);
  ASSERT_TRUE((*data)->FillDocumentStarts({}, starts).has_value());
  EXPECT_EQ(starts, (std::vector<std::int32_t>{0, 0, 3, 3, 0, 0, 4, 4}));
  ASSERT_TRUE((*data)->FillDocumentStarts({.cp = 1}, starts).has_value());
  EXPECT_EQ(starts, (std::vector<std::int32_t>{2, 3, 3, 3, 0, 0, 4, 4}));
}

// Documents of 4, 0, 5 and 1 tokens in one pair, of 3 in the next: the first samples of 6 tokens
// hold 4 + 2 and 3 + 1 + 2 of them. The number 9 ends no document.
TEST_F(TokenFiles, TakeDocumentsFromMegatronsIndex) {
  const auto write = [&](const std::string& name, const std::vector<int>& lengths) {
    const auto written = WriteTokens(files_, folder_ + "/" + name, TokenFormat::kMegatron, 256,
                                     [&](TokenWriter& writer) -> Result<void> {
                                       for (const int length : lengths) {
                                         FT_TRY(writer.AddDocument(std::vector<std::int32_t>(
                                             static_cast<std::size_t>(length), 9)));
                                       }
                                       return {};
                                     });
    ASSERT_TRUE(written.has_value()) << written.error().message;
  };
  write("a.bin", {4, 0, 5, 1});
  write("b.bin", {3});
  const std::string both = folder_ + "/a.bin," + folder_ + "/b.bin";
  plan_ = {.sequence = 6, .global_batch = 2, .micro_batch = 2, .documents = true};
  auto data = TokenData::Open(files_, {.sources = both}, 256, plan_);
  EXPECT_THAT((*data)->Describe(), HasSubstr("documents by the index"));
  std::vector<std::int32_t> starts(12);
  ASSERT_TRUE((*data)->FillDocumentStarts({}, starts).has_value());
  EXPECT_EQ(starts, (std::vector<std::int32_t>{0, 0, 0, 0, 4, 4, 0, 0, 0, 3, 4, 4}));
  // Their attention visits 10 + 3 and 6 + 1 + 3 pairs.
  EXPECT_NEAR(*(*data)->MeanDocumentTokens(), 2 * 23 / 12.0 - 1, 1e-12);
  // A share begins with token 6, within a document; its second sample has tokens 8 and 9.
  auto share =
      TokenData::Open(files_, {.sources = both, .share = {.begin = 6.5 / 13}}, 256,
                      {.sequence = 2, .global_batch = 1, .micro_batch = 1, .documents = true});
  std::vector<std::int32_t> pair(2);
  ASSERT_TRUE((*share)->FillDocumentStarts({.step = 1}, pair).has_value());
  EXPECT_EQ(pair, (std::vector<std::int32_t>{0, 1}));
  // A token that is asked for ends documents here too; other documents are other data.
  auto by_token = TokenData::Open(files_, {.sources = both, .document_end = 9}, 256, plan_);
  ASSERT_TRUE((*by_token)->FillDocumentStarts({}, starts).has_value());
  EXPECT_EQ(starts, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  write("a.bin", {5, 4, 1});
  EXPECT_NE((*data)->Digest(), (*TokenData::Open(files_, {.sources = both}, 256, plan_))->Digest());
  EXPECT_NE((*data)->Digest(), (*by_token)->Digest());
  EXPECT_THAT(OpenError(both + "," + Write("t.txt", "abcdefghijklm")).message,
              HasSubstr("has no index of them; give --document-end ID"));
}

TEST_F(TokenFiles, RefuseDocumentsWithoutATokenThatEndsThem) {
  plan_.documents = true;
  EXPECT_THAT(OpenError(Write("a.txt", "abcdefghijklm")).message,
              HasSubstr("--documents: the token that ends a document is not known, and"));
  const auto opened = TokenData::Open(
      files_, {.sources = Write("a.txt", "abcdefghijklm"), .document_end = 300}, 256, plan_);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().message, "--document-end 300: the vocabulary has the tokens 0 to 255");
}

// Samples of 8 tokens in chunks of 2: rank 0 gets the first and last chunk, rank 1 the middle ones.
TEST_F(TokenFiles, GivesContextParallelRanksTheirChunksOfEachSample) {
  plan_ = {.cp = 2, .sequence = 8, .global_batch = 2, .micro_batch = 2};
  auto data = TokenData::Open(files_, {.sources = Write("a.txt", "abcdefghijklmnopqrstuvwxyz")},
                              256, plan_);
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
  auto data =
      TokenData::Open(files_, {.sources = Write("a.bin", Shard(tokens, 20))}, 50'304, plan_);
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
  // The shortest accepted text: one batch of 8 and the token after it.
  auto data = TokenData::FromText("012345678", "text", 256, plan_);
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
  EXPECT_THAT(OpenError(Write("short", "abcdefgh")).message,
              HasSubstr("1 samples of 4 tokens; a batch has 2"));
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

// A sample may begin in one file and end in the next.
TEST_F(TokenFiles, ReadsFilesAsOneStream) {
  Write("shards.1", "abcde"), Write("shards.2", "f"), Write("shards.3", "ghi");
  auto data = TokenData::Open(files_, {.sources = folder_ + "/shards.*"}, 256, plan_);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ((*data)->tokens(), 9);
  EXPECT_EQ((*data)->samples(), 2);
  std::vector<std::int32_t> ids(4), targets(4);
  ASSERT_TRUE((*data)->Fill({0, 0, 1}, ids, targets).has_value());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(targets.back(), 'i');
}

// All ids of the samples of a step, in order.
std::vector<std::int32_t> IdsOf(TokenData& data, const Plan& plan, std::int64_t step) {
  std::vector<std::int32_t> all, none;
  for (int dp = 0; dp < plan.dp; ++dp) {
    for (int mb = 0; mb < plan.MicroBatches(); ++mb) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(plan.sequence * plan.micro_batch));
      EXPECT_TRUE(data.Fill({step, dp, mb}, ids, none).has_value());
      all.insert(all.end(), ids.begin(), ids.end());
    }
  }
  return all;
}

// Small letters are three quarters of the samples. The order is the same in every plan and wherever
// a run begins, and each epoch reads every sample once.
TEST_F(TokenFiles, MixesSourcesByWeightInAnOrderOfTheSeed) {
  std::string small, large;
  for (int i = 0; i < 4 * 30 + 1; ++i) small += static_cast<char>('a' + i / 4 % 26);
  for (int i = 0; i < 4 * 10 + 1; ++i) large += static_cast<char>('A' + i / 4);
  const DataOptions options{
      .sources = Write("a", small) + ":3," + Write("b", large) + ":1", .shuffle = true, .seed = 9};
  const Plan one{.sequence = 4, .global_batch = 8, .micro_batch = 8};
  const Plan many{.dp = 4, .sequence = 4, .global_batch = 8, .micro_batch = 1};
  auto data = TokenData::Open(files_, options, 256, one);
  auto other = TokenData::Open(files_, options, 256, many);
  ASSERT_TRUE(data.has_value() && other.has_value());
  std::map<std::int32_t, int> counts;
  // 5 steps of 8 samples are one epoch of both sources: 30 and 10 samples.
  for (std::int64_t step = 0; step < 5; ++step) {
    const std::vector<std::int32_t> ids = IdsOf(**data, one, step);
    int of_small = 0;
    for (std::size_t i = 0; i < ids.size(); i += 4) {
      ++counts[ids[i]];
      if (ids[i] >= 'a') ++of_small;
    }
    EXPECT_EQ(of_small, 6) << step;
    EXPECT_EQ(ids, IdsOf(**other, many, step));
  }
  EXPECT_EQ(counts.size(), 36U);  // of 30 samples of `small`, four repeat letters
  for (const auto& [letter, count] : counts) {
    EXPECT_EQ(count, letter >= 'a' && letter < 'e' ? 2 : 1) << letter;
  }
  EXPECT_EQ(IdsOf(**other, many, 1'000'000'000), IdsOf(**data, one, 1'000'000'000));
  EXPECT_THAT((*data)->Describe(), HasSubstr("(75 %)"));
  EXPECT_THAT((*data)->Describe(), HasSubstr("40 samples, shuffled with seed 9"));
}

// The first half of `s` ends within its second file. No sample reads beyond its half.
TEST_F(TokenFiles, ReadAShareOfEachSource) {
  Write("s.1", "abcdefgh"), Write("s.2", "ijklmnopqrst");
  const std::string sources = folder_ + "/s.*:1," + Write("b", "ABCDEFGHIJKLMNOPQRST") + ":1";
  DataOptions first{.sources = sources, .share = {.end = 0.5}};
  DataOptions rest{.sources = sources, .share = {.begin = 0.5}};
  auto training = TokenData::Open(files_, first, 256, plan_);
  auto held_out = TokenData::Open(files_, rest, 256, plan_);
  ASSERT_TRUE(training.has_value() && held_out.has_value());
  EXPECT_EQ((*training)->tokens(), 20);
  EXPECT_EQ((*held_out)->tokens(), 20);
  EXPECT_EQ((*training)->samples(), 4);
  EXPECT_NE((*training)->Digest(), (*held_out)->Digest());
  const auto letters = [&](TokenData& data) {
    std::set<char> all;
    std::vector<std::int32_t> ids(4), targets(4);
    for (std::int64_t step = 0; step < 20; ++step) {
      for (int mb = 0; mb < 2; ++mb) {
        EXPECT_TRUE(data.Fill({step, 0, mb}, ids, targets).has_value());
        all.insert(ids.begin(), ids.end());
        all.insert(targets.begin(), targets.end());
      }
    }
    return std::string(all.begin(), all.end());
  };
  EXPECT_EQ(letters(**training), "ABCDEFGHIabcdefghi");
  EXPECT_EQ(letters(**held_out), "KLMNOPQRSklmnopqrs");
  EXPECT_THAT((*held_out)->Describe(), HasSubstr("50 to 100 % of "));
  rest.share.begin = 0.9;
  auto too_short = TokenData::Open(files_, rest, 256, plan_);
  ASSERT_FALSE(too_short.has_value());
  EXPECT_THAT(too_short.error().message, HasSubstr("2 tokens; a sample of 4 needs 5"));
}

TEST_F(TokenFiles, TellsDataApartByItsDigest) {
  const std::string path = Write("a", "abcdefghijklmnop"), same = Write("b", "abcdefghijklmnop");
  const auto digest = [&](const DataOptions& options, const Plan& plan) {
    auto data = TokenData::Open(files_, options, 256, plan);
    EXPECT_TRUE(data.has_value()) << data.error().message;
    return data.has_value() ? (*data)->Digest() : 0;
  };
  const std::uint64_t known = digest({.sources = path}, plan_);
  EXPECT_EQ(digest({.sources = same}, plan_), known) << "names do not count";
  EXPECT_EQ(digest({.sources = path, .seed = 4}, plan_), known) << "no order is drawn";
  EXPECT_EQ(
      digest({.sources = path}, {.dp = 2, .sequence = 4, .global_batch = 2, .micro_batch = 1}),
      known);
  EXPECT_NE(digest({.sources = Write("c", "abcdefghijklmnoq")}, plan_), known);
  EXPECT_NE(digest({.sources = path, .share = {.end = 0.75}}, plan_), known);
  EXPECT_NE(digest({.sources = path}, {.sequence = 5, .global_batch = 2, .micro_batch = 1}), known);
  const std::uint64_t shuffled = digest({.sources = path, .shuffle = true}, plan_);
  EXPECT_NE(shuffled, known);
  EXPECT_NE(digest({.sources = path, .shuffle = true, .seed = 4}, plan_), shuffled);
  const std::uint64_t mixed = digest({.sources = path + ":1," + same + ":1"}, plan_);
  EXPECT_NE(digest({.sources = path + ":1," + same + ":2"}, plan_), mixed);
}

// A byte of a file of 3 MiB counts at the start, in the middle of a hashed piece and at the end.
TEST_F(TokenFiles, HashesPiecesOfALargeFile) {
  std::string text(3 << 20, 'x');
  const auto digest = [&] {
    auto data = TokenData::Open(files_, {.sources = Write("large", text)}, 256, plan_);
    return data.has_value() ? (*data)->Digest() : 0;
  };
  const std::uint64_t known = digest();
  for (const std::size_t at : {std::size_t{0}, text.size() - 1}) {
    text[at] = 'y';
    EXPECT_NE(digest(), known) << at;
    text[at] = 'x';
  }
  text += 'x';
  EXPECT_NE(digest(), known);
}

// The file is cut, grows or is written to while it is in use.
TEST_F(TokenFiles, NoticeWhenTheyChange) {
  for (const auto mode : {std::ios::trunc, std::ios::app}) {
    const std::string path = Write("a", std::string(100'000, 'x'));
    auto data = TokenData::Open(files_, {.sources = path}, 256, plan_);
    ASSERT_TRUE(data.has_value()) << data.error().message;
    std::vector<std::int32_t> ids(4), targets(4);
    EXPECT_TRUE((*data)->Fill({0, 0, 0}, ids, targets).has_value());
    std::ofstream(path, std::ios::binary | mode) << "abc";
    const auto end = (*data)->Fill({1, 0, 0}, ids, targets);
    ASSERT_FALSE(end.has_value());
    EXPECT_EQ(end.error().code, ErrorCode::kCorruptInput);
    EXPECT_THAT(end.error().message, HasSubstr(path + ": was changed while it was in use"));
  }
}

TEST_F(TokenFiles, RefuseAWeightTooSmallForAnySample) {
  const std::string path = Write("a", std::string(100, 'x'));
  const DataOptions options{.sources = path + ":1," + path + ":1e-9"};
  auto data = TokenData::Open(files_, options, 256, plan_);
  ASSERT_FALSE(data.has_value());
  EXPECT_THAT(data.error().message, HasSubstr("weight 1e-09 is below 1 / 65536 of all weights"));
}

}  // namespace
}  // namespace foretrain

// Shards of tokens and Megatron's pairs of files.
#include "runtime/data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/base/fault_file_system.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> Tokens(std::int32_t factor) {
  std::vector<std::int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (std::int32_t& token : tokens) token *= factor;
  return tokens;
}

std::vector<std::int32_t> AllOf(const TokenFile& file) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < file.tokens(); ++i) {
    tokens.push_back(static_cast<std::int32_t>(file.At(i)));
  }
  return tokens;
}

TEST(Shards, AreReadAsTheyWereWritten) {
  for (const auto& [factor, vocab, width] :
       {std::tuple{600, 65'536, 2}, std::tuple{1200, 128'256, 4}}) {
    FaultFileSystem files;
    ASSERT_TRUE(WriteShard(files, "s.bin", Tokens(factor), vocab).has_value());
    const auto file = ReadTokenFile(files, "s.bin");
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(file->width, width);
    EXPECT_EQ(AllOf(*file), Tokens(factor));
    EXPECT_TRUE(CheckTokens(*file, "s.bin", vocab).has_value());
    const auto other = CheckTokens(*file, "s.bin", 99 * factor);
    ASSERT_FALSE(other.has_value());
    EXPECT_THAT(other.error().message, HasSubstr("token 99 is " + std::to_string(99 * factor)));
  }
}

TEST(Shards, ThatWereCutAreRefused) {
  FaultFileSystem files;
  ASSERT_TRUE(WriteShard(files, "s.bin", Tokens(1), 256).has_value());
  const std::string whole = files.Get("s.bin");
  for (const std::size_t bytes : {std::size_t{1024}, whole.size() - 1}) {
    const auto file = TokenFileOf(whole.substr(0, bytes), "s.bin");
    ASSERT_FALSE(file.has_value());
    EXPECT_THAT(file.error().message, HasSubstr("100 tokens of 2 bytes"));
  }
  std::string other = whole;
  other[4] = 9;
  EXPECT_THAT(TokenFileOf(other, "s.bin").error().message, HasSubstr("version 9"));
}

template <class T>
void Append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Two sequences of two documents.
std::string Index(std::uint64_t version, std::uint8_t type, std::int32_t first,
                  std::int32_t second) {
  std::string index("MMIDIDX\0\0", 9);
  Append(index, version);
  Append(index, type);
  Append(index, std::uint64_t{2});
  Append(index, std::uint64_t{3});
  Append(index, first), Append(index, second);
  for (const std::int64_t number : {0, 6, 0, 1, 2}) Append(index, number);
  return index;
}

TEST(MegatronPairs, AreReadByEitherName) {
  FaultFileSystem files;
  std::string bin;
  for (const int token : {7, 8, 9, 60'000, 11}) Append(bin, static_cast<std::uint16_t>(token));
  files.Put("d.bin", bin);
  files.Put("d.idx", Index(1, 8, 3, 2));
  for (const char* const name : {"d.bin", "d.idx"}) {
    const auto file = ReadTokenFile(files, name);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(AllOf(*file), (std::vector<std::int32_t>{7, 8, 9, 60'000, 11}));
  }
  const auto refused = [&](const std::string& index, const char* says) {
    files.Put("d.idx", index);
    const auto file = ReadTokenFile(files, "d.bin");
    ASSERT_FALSE(file.has_value()) << says;
    EXPECT_THAT(file.error().message, HasSubstr(says));
  };
  refused(Index(2, 8, 3, 2), "version 2");
  refused(Index(1, 7, 3, 2), "tokens of type 7");
  refused(Index(1, 8, 3, 3), "the index says 6 tokens of 2 bytes, and the file has 10 bytes");
  refused(Index(1, 8, 3, 2).substr(0, 40), "it was cut");
  refused("MMIDIDX", "is no index");
}

TEST(Texts, AreTokensOfAByte) {
  const auto file = TokenFileOf("ab\xff", "t.txt");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(AllOf(*file), (std::vector<std::int32_t>{97, 98, 255}));
  EXPECT_FALSE(CheckTokens(*file, "t.txt", 255).has_value());
  EXPECT_FALSE(TokenFileOf("", "t.txt").has_value());
}

}  // namespace
}  // namespace foretrain

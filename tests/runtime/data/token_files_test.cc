// Shards of tokens and Megatron's pairs of files.
#include "runtime/data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/data/token_writer.h"
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
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens));
  const auto read = file.Read(0, tokens, INT32_MAX);
  EXPECT_TRUE(read.has_value()) << read.error().message;
  return tokens;
}

Result<void> WriteShard(FileSystem& files, const std::string& path,
                        const std::vector<std::int32_t>& tokens, std::int64_t vocab) {
  return WriteTokens(files, path, TokenFormat::kShard, vocab,
                     [&](TokenWriter& writer) { return writer.AddDocument(tokens); });
}

TEST(Shards, AreReadAsTheyWereWritten) {
  for (const auto& [factor, vocab, width] :
       {std::tuple{600, 65'536, 2}, std::tuple{1200, 128'256, 4}}) {
    FaultFileSystem files;
    ASSERT_TRUE(WriteShard(files, "s.bin", Tokens(factor), vocab).has_value());
    const auto file = OpenTokenFile(files, "s.bin");
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(file->width, width);
    EXPECT_EQ(AllOf(*file), Tokens(factor));
    EXPECT_TRUE(CheckTokens(*file, vocab).has_value());
    const auto other = CheckTokens(*file, 99 * factor);
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

// The bytes are those that Megatron's own writer makes of the documents (7 8 9), () and (60000 11):
// type 8 is u16, and there is one more document index than documents.
TEST(MegatronPairs, AreWrittenWithTheirDocuments) {
  FaultFileSystem files;
  const auto write = [](TokenWriter& writer) -> Result<void> {
    FT_TRY(writer.AddDocument(std::vector<std::int32_t>{7, 8, 9}));
    FT_TRY(writer.AddDocument({}));
    return writer.AddDocument(std::vector<std::int32_t>{60'000, 11});
  };
  const auto written = WriteTokens(files, "d.bin", TokenFormat::kMegatron, 65'536, write);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  std::string bin, index("MMIDIDX\0\0", 9);
  for (const int token : {7, 8, 9, 60'000, 11}) Append(bin, static_cast<std::uint16_t>(token));
  Append(index, std::uint64_t{1}), Append(index, std::uint8_t{8});
  Append(index, std::uint64_t{3}), Append(index, std::uint64_t{4});
  for (const std::int32_t length : {3, 0, 2}) Append(index, length);
  for (const std::int64_t number : {0, 6, 6, 0, 1, 2, 3}) Append(index, number);
  EXPECT_EQ(files.Get("d.bin"), bin);
  EXPECT_EQ(files.Get("d.idx"), index);
  const auto file = OpenTokenFile(files, "d.idx");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(AllOf(*file), (std::vector<std::int32_t>{7, 8, 9, 60'000, 11}));

  // Above 65,536 ids a token has 32 bits: type 4.
  ASSERT_TRUE(WriteTokens(files, "e.bin", TokenFormat::kMegatron, 65'537, write).has_value());
  EXPECT_EQ(files.Get("e.bin").size(), 20U);
  EXPECT_EQ(files.Get("e.idx")[17], 4);
  const auto other = WriteTokens(files, "e.tokens", TokenFormat::kMegatron, 9, write);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("ends in .bin"));
}

TEST(MegatronPairs, AreReadByEitherName) {
  FaultFileSystem files;
  std::string bin;
  for (const int token : {7, 8, 9, 60'000, 11}) Append(bin, static_cast<std::uint16_t>(token));
  files.Put("d.bin", bin);
  files.Put("d.idx", Index(1, 8, 3, 2));
  for (const char* const name : {"d.bin", "d.idx"}) {
    const auto file = OpenTokenFile(files, name);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(AllOf(*file), (std::vector<std::int32_t>{7, 8, 9, 60'000, 11}));
  }
  const auto refused = [&](const std::string& index, const char* says) {
    files.Put("d.idx", index);
    const auto file = OpenTokenFile(files, "d.bin");
    ASSERT_FALSE(file.has_value()) << says;
    EXPECT_THAT(file.error().message, HasSubstr(says));
  };
  refused(Index(2, 8, 3, 2), "version 2");
  refused(Index(1, 7, 3, 2), "tokens of type 7");
  refused(Index(1, 8, 3, 3), "the index says 6 tokens of 2 bytes, and the file has 10 bytes");
  refused(Index(1, 8, 3, 2).substr(0, 40), "it was cut");
  refused(Index(1, 8, 6, -1), "sequence 1 has -1 tokens");
  refused("MMIDIDX", "is no index");
}

// Numbers of the documents' first sequences are the last three of the index.
TEST(MegatronPairs, SayWhereDocumentsBegin) {
  FaultFileSystem files;
  files.Put("d.bin", std::string(10, '\0'));
  const std::string index = Index(1, 8, 3, 2);
  files.Put("d.idx", index);
  EXPECT_FALSE(OpenTokenFile(files, "d.bin")->documents.has_value()) << "nobody asked";
  const auto file = OpenTokenFile(files, "d.bin", /*documents=*/true);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->documents, (std::vector<std::int64_t>{0, 3, 5}));
  const auto refused = [&](const std::string& wrong, const char* says) {
    files.Put("d.idx", wrong);
    ASSERT_TRUE(OpenTokenFile(files, "d.bin").has_value()) << "tokens alone are right";
    const auto bad = OpenTokenFile(files, "d.bin", /*documents=*/true);
    ASSERT_FALSE(bad.has_value()) << says;
    EXPECT_EQ(bad.error().code, ErrorCode::kCorruptInput);
    EXPECT_THAT(bad.error().message, HasSubstr(says));
  };
  refused(index.substr(0, index.size() - 8), "says 3 numbers of documents and has room for 2");
  std::string far = index, back = index;
  far[far.size() - 8] = 3;  // the end, after two sequences
  back[back.size() - 16] = 2, back[back.size() - 8] = 1;
  refused(far, "document 2 begins with sequence 3, and sequences 1 to 2 are left for it");
  refused(back, "document 2 begins with sequence 1, and sequences 2 to 2 are left for it");
}

TEST(Texts, AreTokensOfAByte) {
  const auto file = TokenFileOf("ab\xff", "t.txt");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(AllOf(*file), (std::vector<std::int32_t>{97, 98, 255}));
  EXPECT_FALSE(CheckTokens(*file, 255).has_value());
  EXPECT_FALSE(TokenFileOf("", "t.txt").has_value());
}

}  // namespace
}  // namespace foretrain

// Small tokenizers of the kinds that models use, against ids of the library `tokenizers` 0.23
// (PyPI): tests/data/tokenizers/expected.json.
#include "runtime/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/paths.h"

namespace foretrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string ReadData(const std::string& name) {
  PosixFileSystem files;
  return ReadFile(files, TestDataPath("tokenizers/" + name), 1 << 20).value();
}

std::unique_ptr<Tokenizer> Made(const std::string& text) {
  auto tokenizer = Tokenizer::FromJson(text, "t.json");
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return tokenizer.has_value() ? *std::move(tokenizer) : nullptr;
}

class KnownTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(KnownTokenizer, GivesTheLibrarysIdsAndText) {
  const json all = json::parse(ReadData("expected.json"));
  const json& expected = all.at("tokenizers").at(GetParam());
  const auto text = all.at("text").get<std::string>();
  const auto ids = expected.at("ids").get<std::vector<std::int32_t>>();
  const auto tokenizer = Made(ReadData(std::string(GetParam()) + ".json"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode(text, /*adds_special=*/true), ids);
  EXPECT_EQ(tokenizer->Encode(text, /*adds_special=*/false),
            expected.at("plain").get<std::vector<std::int32_t>>());
  EXPECT_EQ(tokenizer->Decode(ids, /*skips_special=*/false),
            expected.at("decoded").get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Kinds, KnownTokenizer,
                         testing::Values("deepseek", "digits", "gemma", "gpt2", "llama2", "llama3",
                                         "mistral", "qwen2"),
                         [](const auto& at) { return std::string(at.param); });

// Symbols are bytes, so every text comes back.
TEST(Tokenizer, OfBytesKeepsEveryText) {
  const auto tokenizer = Made(ReadData("gpt2.json"));
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& text :
       {std::string(), std::string(1, '\0'), std::string("\xf0\x9f\x98\x80 \r\n\t  x"),
        std::string(5000, 'a'), std::string("é\u0301\u200d")}) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), text);
  }
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a\xff\xfe z", false), false),
            "a\xef\xbf\xbd\xef\xbf\xbd z");
}

TEST(Tokenizer, KnowsItsVocabularyAndTheEndOfAText) {
  const auto tokenizer = Made(ReadData("llama3.json"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->EndOfText(), tokenizer->IdOf("<|endoftext|>"));
  EXPECT_GE(tokenizer->vocab_size(), 420);
  EXPECT_EQ(tokenizer->IdOf("<none>"), -1);
  const std::vector<std::int32_t> ids = tokenizer->Encode("a<|endoftext|>b", true);
  EXPECT_EQ(tokenizer->Decode(ids, /*skips_special=*/true), "ab");
  EXPECT_EQ(tokenizer->Decode(std::vector{-7, 1 << 20}, false), "");
}

// The pair that was learned first is merged first, and of equal pairs the leftmost.
TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const auto tokenizer =
      Made(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"aa":3,"aab":4},)"
           R"("merges":["a a",["a","b"],"aa b"]}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tokenizer->Encode("aab", false), ElementsAre(4));
  EXPECT_THAT(tokenizer->Encode("aaab", false), ElementsAre(3, 2));
  EXPECT_THAT(tokenizer->Encode("aaaa", false), ElementsAre(3, 3));
  EXPECT_THAT(tokenizer->Encode("xbx", false), ElementsAre(1));  // no unknown token
}

struct Bad {
  const char* text;
  const char* says;
};

TEST(Tokenizer, RefusesWhatItDoesNotKnowByName) {
  const std::string model = R"("model":{"vocab":{"a":0},"merges":[]})";
  const Bad bad[] = {
      {"[]", "is no JSON object"},
      {"{}", "has no model"},
      {R"({"model":{"type":"WordPiece","vocab":{},"merges":[]}})", "\"WordPiece\""},
      {R"({"model":{"vocab":{"a":0},"merges":["a b"]}})", "merge 0: \"a\" and \"b\""},
      {R"({"model":{"vocab":{"a":-1},"merges":[]}})", "vocab: \"a\" has no id"},
      {R"({"model":{"vocab":{"a":0},"merges":["a"]}})", "merges: one is no pair"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"unk_token":"u"}})", "unk_token: \"u\""},
      {R"({"model":{"vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>"}})",
       "end_of_word_suffix"},
      {R"({"model":{"vocab":{},"merges":[]}})", "has no tokens"},
      {R"({"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{}})", "\"BertPreTokenizer\""},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}})",
       "pattern \"(\""},
      {R"({"normalizer":{"type":"Precompiled"}})", "normalizer of type \"Precompiled\""},
  };
  for (const Bad& one : bad) {
    const auto tokenizer = Tokenizer::FromJson(one.text, "t.json");
    ASSERT_FALSE(tokenizer.has_value()) << one.text;
    EXPECT_THAT(tokenizer.error().message, AllOf(HasSubstr("t.json: "), HasSubstr(one.says)));
  }
}

}  // namespace
}  // namespace foretrain

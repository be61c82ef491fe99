// `foretrain generate` from checkpoints and folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kModel =
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
        "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 256,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "tie_word_embeddings": true})";

// A model that has learned that "ab" repeats.
class Generate : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("config.json", kModel);
    std::string text;
    while (text.size() < 3000) text += "ab";
    folder_.Write("text", text);
    const ProgramEnd end =
        Run("train --capture off --ranks 1 --model config.json --data text --sequence 64 "
            "--global-batch 4 --steps 100 --lr 0.01 --save saved");
    ASSERT_EQ(end.code, 0) << end.errors;
  }
  ProgramEnd Run(const std::string& arguments) const {
    return RunForetrain(folder_.path(), arguments);
  }
  json Generated(const std::string& arguments) const {
    const ProgramEnd end = Run("generate " + arguments + " --json");
    EXPECT_EQ(end.code, 0) << end.errors;
    return json::parse(end.output, nullptr, false);
  }

  TemporaryFolder folder_;
};

TEST_F(Generate, ContinuesTheTextFromACheckpoint) {
  const ProgramEnd end = Run("generate saved --prompt abab --tokens 7");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(end.output, "abababababa\n");
  json report = Generated("saved --prompt abab --tokens 7");
  EXPECT_GT(report.at("tokens_per_s"), 0);
  EXPECT_GT(report.at("seconds"), 0);
  report.erase("tokens_per_s"), report.erase("seconds");
  EXPECT_EQ(report, json::parse(R"({"schema": 1, "prompt_tokens": 4, "text": "abababa",
      "tokens": [97, 98, 97, 98, 97, 98, 97], "ended": false})"));
}

TEST_F(Generate, GivesTheSameTokensFromAFolderAndFromAFile) {
  ASSERT_EQ(Run("convert saved --family llama --out hub").code, 0);
  folder_.Write("prompt", "babab");
  const json tokens = Generated("saved --prompt babab --tokens 20").at("tokens");
  EXPECT_EQ(Generated("hub --prompt-file prompt --tokens 20").at("tokens"), tokens);
  EXPECT_EQ(Generated("hub/model.safetensors --model config.json --prompt-ids 98,97,98,97,98 "
                      "--tokens 20")
                .at("tokens"),
            tokens);
}

// The model has 64 positions.
TEST_F(Generate, GoesOnBeyondTheModelsPositions) {
  std::string expected = "a";
  while (expected.size() < 91) expected += expected.size() % 2 == 1 ? "b" : "a";
  const ProgramEnd end = Run("generate saved --prompt a --tokens 90");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(end.output, expected + "\n");
}

TEST_F(Generate, DrawsWithASeed) {
  const std::string sampled = "saved --prompt abab --tokens 30 --temperature 3 --seed ";
  const json one = Generated(sampled + "1").at("tokens");
  EXPECT_EQ(Generated(sampled + "1").at("tokens"), one);
  EXPECT_NE(Generated(sampled + "2").at("tokens"), one);
  EXPECT_EQ(Generated(sampled + "2 --top-k 1").at("tokens"),
            Generated("saved --prompt abab --tokens 30").at("tokens"));
}

TEST_F(Generate, UsesATokenizerAndEndsAtItsToken) {
  folder_.Write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"x": 97, "y": 98},
      "merges": []}, "added_tokens": [{"id": 98, "content": "y", "special": false}]})");
  const json all = Generated("saved --tokenizer tokenizer.json --prompt x --tokens 4 --end none");
  EXPECT_EQ(all.at("text"), "yxyx");
  EXPECT_EQ(all.at("ended"), false);
  const json ended = Generated("saved --tokenizer tokenizer.json --prompt x --tokens 4 --end y");
  EXPECT_EQ(ended.at("tokens"), json::parse("[98]"));
  EXPECT_EQ(ended.at("ended"), true);
}

// An average of this decay has hardly moved from the first weights, which know nothing of the text.
TEST_F(Generate, TakesMovingAverages) {
  const ProgramEnd end =
      Run("train --capture off --ranks 1 --model config.json --data text --sequence 64 "
          "--global-batch 4 --steps 100 --lr 0.01 --ema 0.9999999 --save averaged");
  ASSERT_EQ(end.code, 0) << end.errors;
  const json learned = Generated("saved --prompt abab --tokens 7").at("tokens");
  EXPECT_EQ(Generated("averaged --prompt abab --tokens 7").at("tokens"), learned);
  const json average = Generated("averaged --ema --prompt abab --tokens 7").at("tokens");
  EXPECT_NE(average, learned);
  ASSERT_EQ(Run("convert averaged --ema --family llama --out hub").code, 0);
  EXPECT_EQ(Generated("hub --prompt abab --tokens 7").at("tokens"), average);
  const ProgramEnd without = Run("convert saved --ema --family llama --out other");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.errors, HasSubstr("trained without --ema"));
  EXPECT_THAT(Run("generate hub --ema --prompt a").errors, HasSubstr("is no checkpoint"));
}

TEST_F(Generate, RefusesWithASentence) {
  const auto refused = [&](const std::string& arguments, const char* says) {
    const ProgramEnd end = Run("generate " + arguments);
    EXPECT_EQ(end.code, 2) << arguments;
    EXPECT_THAT(end.errors, HasSubstr(says)) << arguments;
  };
  refused("--prompt a", "give FROM");
  refused("saved", "give one of --prompt, --prompt-file and --prompt-ids");
  refused("saved --prompt a --prompt-ids 1", "give one of");
  refused("saved --prompt-ids 1,b", "--prompt-ids");
  refused("saved --prompt-ids 256", "token 256 is outside the model's vocabulary of 256");
  refused("saved --prompt a --tokens 0", "--tokens");
  refused("saved --prompt a --top-p 0", "--top-p");
  refused("saved --prompt a --end z --tokenizer config.json", "config.json");
  refused("missing --prompt a", "missing");
}

}  // namespace
}  // namespace foretrain

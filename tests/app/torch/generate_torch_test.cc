// A model trained here, exported and loaded by the transformers library gives the same greedy
// tokens there and here.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

using nlohmann::json;

struct Family {
  const char* name;
  const char* config;
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

const Family kFamilies[] = {
    {"gpt2",
     R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 256})"},
    {"llama",
     R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "tie_word_embeddings": false})"}};

class GreedyTokens : public testing::TestWithParam<Family> {};

// Logits here and there differ by about 1e-6, so tokens whose two largest logits are further apart
// must be equal.
TEST_P(GreedyTokens, AreThoseOfTheLibrary) {
  if (!HasTransformers()) GTEST_SKIP() << kNoTransformers;
  const TemporaryFolder folder;
  folder.Write("config.json", GetParam().config);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " of the text; ";
  folder.Write("text", text);
  const auto run = [&](const std::string& arguments) {
    const ProgramEnd end = RunForetrain(folder.path(), arguments);
    EXPECT_EQ(end.code, 0) << end.errors;
    return end.output;
  };
  run("train --capture off --ranks 1 --model config.json --data text --sequence 32 "
      "--global-batch 4 --steps 60 --lr 3e-3 --save saved");
  run(std::string("convert saved --out hub --family ") + GetParam().name);
  const json ours = json::parse(
      run("generate saved --prompt-ids 108,105,110,101,32 --tokens 40 --json"), nullptr, false);
  const json library = WeightsInLibrary(folder.path(), "generate hub 108,105,110,101,32 40");
  EXPECT_GT(library.at("margin").get<double>(), 1e-4) << "too close to compare tokens";
  EXPECT_EQ(ours.at("tokens"), library.at("tokens"));
}

INSTANTIATE_TEST_SUITE_P(Families, GreedyTokens, testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain

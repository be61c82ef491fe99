// Compares parameter counts of every model type with those of the transformers library in
// tests/data/models/parameters.jsonl (written by make.py in that folder).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/json/json.h"
#include "sim/config/model/import/families.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/model_json.h"
#include "tests/paths.h"
#include "tests/support/json_text.h"

namespace foretrain {
namespace {

using testing::IsEmpty;

struct Published {
  std::string name;
  std::int64_t parameters = 0;
  std::string type;
  ImportedModel imported;
};

std::vector<Published> ReadPublished() {
  std::ifstream file(TestDataPath("models/parameters.jsonl"));
  std::vector<Published> all;
  for (std::string line; std::getline(file, line);) {
    const auto row = ParseJson(line, "parameters.jsonl");
    EXPECT_TRUE(row.has_value()) << row.error().message;
    Published& published = all.emplace_back();
    published.name = row->Find("name")->AsString();
    published.parameters = row->Find("parameters")->AsInteger();
    const JsonValue& config = *row->Find("config");
    published.type = config.Find("model_type")->AsString();
    const auto imported = ModelFromHuggingFace(TextOf(config), published.name);
    EXPECT_TRUE(imported.has_value()) << imported.error().message;
    if (imported) published.imported = *imported;
  }
  return all;
}

// Without the layers that predict ahead, which the library's modules lack.
std::int64_t Counted(const Published& published) {
  ModelSpec model = published.imported.model;
  model.predict_ahead = 0;
  return ParameterCount(model);
}

TEST(Families, CountTheParametersOfTheLibraryExactly) {
  const auto all = ReadPublished();
  EXPECT_EQ(all.size(), 76U);
  for (const Published& published : all) {
    EXPECT_EQ(Counted(published), published.parameters) << published.name;
  }
}

TEST(Families, KnowEveryFieldThatTheLibraryWrites) {
  for (const Published& published : ReadPublished()) {
    EXPECT_THAT(published.imported.unknown, IsEmpty()) << published.name;
  }
}

TEST(Families, AreEachCompared) {
  // Their modules are not part of the library; those of kimi_k2 are DeepSeek-V3's.
  std::set<std::string> compared = {"internlm2", "kimi_k2"};
  for (const Published& published : ReadPublished()) compared.insert(published.type);
  for (const Family& family : Families()) {
    EXPECT_TRUE(compared.contains(std::string(family.type))) << family.type;
  }
}

TEST(Families, ReadBackFromOurOwnJson) {
  for (const Published& published : ReadPublished()) {
    const auto again = ModelFromJson(ToJson(published.imported.model), published.name);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, published.imported.model) << published.name;
  }
}

// In Gemma's first files, gelu means its tanh form. Any other function is another model.
TEST(Families, ReadTheActivationOfGemma) {
  const auto with = [](const std::string& activation) {
    return ModelFromHuggingFace(
        R"({"model_type": "gemma", "hidden_size": 64, "intermediate_size": 96, "head_dim": 16,
            "max_position_embeddings": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
            "num_key_value_heads": 1, "vocab_size": 256, "hidden_act": ")" +
            activation + "\"}",
        "gemma");
  };
  for (const char* name : {"gelu", "gelu_pytorch_tanh"}) {
    ASSERT_TRUE(with(name).has_value()) << with(name).error().message;
    EXPECT_EQ(with(name)->model.mlp, MlpKind::kGeglu);
  }
  ASSERT_FALSE(with("silu").has_value());
  EXPECT_THAT(with("silu").error().message, testing::HasSubstr("hidden_act: \"silu\""));
}

// The published checkpoint of InternLM2-7B has 7,737,708,544 parameters.
TEST(Families, CountInternLm2) {
  const auto imported = ModelFromHuggingFace(
      R"({"model_type": "internlm2", "bias": false, "hidden_act": "silu", "hidden_size": 4096,
          "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
          "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
          "rope_theta": 1000000, "tie_word_embeddings": false, "vocab_size": 92544})",
      "internlm2");
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(ParameterCount(imported->model), 7'737'708'544);
}

}  // namespace
}  // namespace foretrain

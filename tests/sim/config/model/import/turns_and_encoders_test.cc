// Published files of Llama 4, whose layers take turns, and of encoders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/import/write_config.h"
#include "sim/config/model/model_json.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Sample(const std::string& name) {
  std::ifstream file(TestDataPath("configs/" + name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The published file with its first `from` replaced by `to`.
Result<ImportedModel> Import(const std::string& name, const std::string& from = "",
                             const std::string& to = "") {
  std::string text = Sample(name);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return ModelFromHuggingFace(text, name);
}

ImportedModel Known(const std::string& name) {
  const auto imported = Import(name);
  EXPECT_TRUE(imported.has_value()) << imported.error().message;
  return imported ? *imported : ImportedModel{};
}

// The parameters of the language model: the library's count, without the vision part.
TEST(Llama4, IsReadFromThePublishedFileOfTheWholeModel) {
  const ImportedModel scout = Known("llama-4-scout-17b-16e.json");
  const ModelSpec& model = scout.model;
  EXPECT_EQ(ParameterCount(model), 107'769'861'120);
  EXPECT_EQ(ActiveParameterCount(model), 17'172'894'720);
  EXPECT_EQ(model.experts, 16);
  EXPECT_EQ(model.expert_every, 1);
  EXPECT_EQ(model.shared_ffn_hidden, 8192);
  EXPECT_EQ(model.router, RouterKind::kTopKSigmoid);
  EXPECT_TRUE(model.weigh_expert_inputs);
  EXPECT_TRUE(model.qk_l2_norm);
  EXPECT_EQ(model.attention_chunk, 8192);
  EXPECT_EQ(model.global_attention_every, 4);
  EXPECT_FALSE(model.rotate_global);
  EXPECT_DOUBLE_EQ(model.query_temperature, 0.1);
  EXPECT_EQ(model.query_temperature_floor, 8192);
  EXPECT_EQ(WhyNotLowered(model), "");
  EXPECT_EQ(WhyNotExecuted(model), "");
  EXPECT_THAT(scout.unknown, IsEmpty());
  EXPECT_THAT(scout.notes, Contains(HasSubstr("language model alone")));
}

TEST(Llama4, HasADenseMlpInEveryOtherLayerOfMaverick) {
  const ImportedModel maverick = Known("llama-4-maverick-text.json");
  EXPECT_EQ(ParameterCount(maverick.model), 400'711'848'960);
  EXPECT_EQ(ActiveParameterCount(maverick.model), 17'184'691'200);
  EXPECT_EQ(maverick.model.expert_every, 2);
  EXPECT_EQ(maverick.model.DenseLayers(), 24);
  EXPECT_FALSE(maverick.model.HasExperts(0));
  EXPECT_TRUE(maverick.model.HasExperts(1));
  EXPECT_EQ(maverick.model.ffn_hidden, 16384);
  EXPECT_FALSE(maverick.model.qk_l2_norm);
  EXPECT_DOUBLE_EQ(maverick.model.query_temperature, 0.1);
  EXPECT_EQ(WhyNotExecuted(maverick.model), "");
  EXPECT_THAT(maverick.unknown, IsEmpty());
}

TEST(Llama4, IsWrittenAndReadBack) {
  for (const char* name : {"llama-4-scout-17b-16e.json", "llama-4-maverick-text.json"}) {
    const ModelSpec model = Known(name).model;
    const auto config = ConfigOf(model, "", "bfloat16");
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->model_type, "llama4_text") << name;
    const auto own = ModelFromJson(ToJson(model), "m.json");
    ASSERT_TRUE(own.has_value()) << own.error().message;
    EXPECT_EQ(*own, model);
  }
}

TEST(Llama4, IsRefusedWithAnotherOrderOfItsLayers) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    const auto imported = Import("llama-4-scout-17b-16e.json", from, to);
    return imported ? "accepted" : imported.error().message;
  };
  EXPECT_THAT(refusal("\"no_rope_layers\": []", "\"no_rope_layers\": [0, 1, 1]"),
              HasSubstr("no_rope_layers: must be 0 in every n-th layer"));
  EXPECT_THAT(refusal("\"no_rope_layers\": []", "\"moe_layers\": [1, 3]"),
              HasSubstr("moe_layers: must name every interleave_moe_layer_step-th layer"));
  EXPECT_THAT(refusal("\"no_rope_layers\": []", "\"layer_types\": [\"full_attention\"]"),
              HasSubstr("layer_types: must be \"chunked_attention\""));
  EXPECT_THAT(refusal("\"router_jitter_noise\": 0.0", "\"router_jitter_noise\": 0.1"),
              HasSubstr("router_jitter_noise"));
}

// Tables of 30522, 512 and 2 rows, their norm, 12 layers of 7,087,872, transform with its norm, and
// the bias of the logits: 768 * 31036 + 1536 + 85,054,464 + 592,128 + 30,522.
TEST(Encoders, AreReadWithTheMaskedLmHead) {
  const ImportedModel bert = Known("bert-base-uncased.json");
  EXPECT_EQ(ParameterCount(bert.model), 109'514'298);
  EXPECT_FALSE(bert.model.causal);
  EXPECT_TRUE(bert.model.residual_after_norm);
  EXPECT_TRUE(bert.model.head_transform);
  EXPECT_EQ(bert.model.token_types, 2);
  EXPECT_EQ(bert.model.mlp, MlpKind::kGeluErf);
  EXPECT_EQ(WhyNotLowered(bert.model), "");
  EXPECT_EQ(WhyNotExecuted(bert.model), "");
  EXPECT_THAT(bert.unknown, IsEmpty());
  EXPECT_THAT(bert.notes, Contains(HasSubstr("pooler")));
  const auto own = ModelFromJson(ToJson(bert.model), "m.json");
  ASSERT_TRUE(own.has_value()) << own.error().message;
  EXPECT_EQ(*own, bert.model);
  const auto relative = Import("bert-base-uncased.json", "absolute", "relative_key");
  ASSERT_FALSE(relative.has_value());
  EXPECT_THAT(relative.error().message, HasSubstr("position_embedding_type"));
}

// Two tables of 32128 * 1024; 24 encoder layers of attention 4 * 1024^2, gated MLP 3 * 1024 * 2816
// and two norms; 24 decoder layers with another attention and norm; 2 * 32 * 16 buckets; two norms.
TEST(Encoders, OfEncoderDecodersAreCountedAndForecast) {
  const ImportedModel t5 = Known("t5-v1.1-large.json");
  EXPECT_EQ(ParameterCount(t5.model), 783'150'080);
  EXPECT_EQ(t5.model.encoder_layers, 24);
  EXPECT_EQ(t5.model.positions, PositionKind::kRelative);
  EXPECT_EQ(t5.model.relative_max_distance, 128);
  EXPECT_EQ(t5.model.attention_scale, 1);
  EXPECT_EQ(t5.model.logit_scale, 1);  // its head is not tied
  EXPECT_EQ(WhyNotLowered(t5.model), "");
  ModelSpec other = t5.model;
  other.norm = NormKind::kLayerNorm;
  EXPECT_EQ(WhyNotLowered(other), "encoder_layers with layers unlike T5's");
  other = t5.model;
  other.encoder_layers = 0;
  EXPECT_EQ(WhyNotLowered(other), "positions relative without encoder_layers");
  EXPECT_THAT(t5.unknown, IsEmpty());
}

TEST(Encoders, AreRefusedWithWhatTheyCannotHave) {
  const auto refusal = [](void (*change)(ModelSpec&)) {
    ModelSpec model = Known("bert-base-uncased.json").model;
    change(model);
    const auto valid = ValidateModel(model);
    return valid ? "accepted" : valid.error().message;
  };
  EXPECT_THAT(refusal([](ModelSpec& m) { m.attention_window = 8; }), HasSubstr("causal false"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.attention_chunk = 8; }), HasSubstr("causal false"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.positions = PositionKind::kAlibi; }),
              HasSubstr("causal false"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.embedding_norm = true; }),
              HasSubstr("residual_after_norm true"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.mlp = MlpKind::kGeglu; }),
              HasSubstr("head_transform true"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.relative_buckets = 32; }),
              HasSubstr("relative_buckets 32 with positions learned"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.token_types = -1; }), HasSubstr("token_types -1"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.qk_l2_norm = true; }), HasSubstr("qk_l2_norm true"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.query_temperature = 0.1; }),
              HasSubstr("query_temperature 0.1"));
  EXPECT_THAT(refusal([](ModelSpec& m) { m.expert_every = 2; }), HasSubstr("expert_every 2"));
}

}  // namespace
}  // namespace foretrain

#include "sim/config/model/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// GPT family: biases everywhere, learned positions, tied head.
ModelSpec Gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden = 4 * hidden;
  model.vocab = 50257;
  model.max_sequence = 1024;
  return model;
}

// Llama family: RMSNorm, SwiGLU, rotary positions, no biases, untied head.
ModelSpec Llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                std::int64_t ffn_hidden, std::int64_t vocab) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden = ffn_hidden;
  model.vocab = vocab;
  model.max_sequence = 4096;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = model.tied_embeddings = false;
  return model;
}

// 2 layers, hidden 4, 2 heads of 2, ffn 16, vocabulary 10, 8 positions: small enough to count by
// hand.
ModelSpec Tiny() {
  ModelSpec model = Gpt2(2, 4, 2);
  model.vocab = 10;
  model.max_sequence = 8;
  return model;
}

std::string RefusalOf(const ModelSpec& model) {
  const auto valid = ValidateModel(model);
  if (valid) return "accepted";
  EXPECT_EQ(valid.error().code, ErrorCode::kInvalidArgument);
  return valid.error().message;
}

TEST(ModelSpec, CountsTheParametersOfATinyGptByHand) {
  // Tables (10 + 8) * 4 = 72. Layer: qkv 4*12 + 12, output 4*4 + 4, up 4*16 + 16, down 16*4 + 4,
  // norms 2 * (4 + 4): 60 + 20 + 80 + 68 + 16 = 244. Final norm 8. Total 72 + 2 * 244 + 8 = 568.
  EXPECT_EQ(ParameterCount(Tiny()), 568);
}

TEST(ModelSpec, EachFlagAddsItsOwnParameters) {
  ModelSpec model = Tiny();
  model.attention_bias = false;
  EXPECT_EQ(ParameterCount(model), 568 - 2 * 12);
  model = Tiny();
  model.output_bias = model.mlp_bias = false;
  EXPECT_EQ(ParameterCount(model), 568 - 2 * (4 + 16 + 4));
  model = Tiny();
  model.tied_embeddings = false;
  EXPECT_EQ(ParameterCount(model), 568 + 10 * 4);
  model = Tiny();
  model.positions = PositionKind::kRope;
  EXPECT_EQ(ParameterCount(model), 568 - 8 * 4);
  model = Tiny();
  model.norm = NormKind::kRmsNorm;
  EXPECT_EQ(ParameterCount(model), 568 - 5 * 4);
  model = Tiny();
  model.mlp = MlpKind::kSwiglu;
  EXPECT_EQ(ParameterCount(model), 568 + 2 * (4 * 16 + 16));
  model = Tiny();
  model.kv_heads = 1;  // qkv has width 8 instead of 12
  EXPECT_EQ(ParameterCount(model), 568 - 2 * (4 * 4 + 4));
}

// Exact counts of the published weights, from their model cards and safetensors headers.
TEST(ModelSpec, CountsThePublishedParametersExactly) {
  EXPECT_EQ(ParameterCount(Gpt2(12, 768, 12)), 124'439'808);
  EXPECT_EQ(ParameterCount(Gpt2(48, 1600, 25)), 1'557'611'200);
  EXPECT_EQ(ParameterCount(Llama(32, 4096, 32, 32, 11008, 32000)), 6'738'415'616);
  EXPECT_EQ(ParameterCount(Llama(32, 4096, 32, 8, 14336, 128256)), 8'030'261'248);
  EXPECT_EQ(ParameterCount(Llama(32, 4096, 32, 8, 14336, 32000)), 7'241'732'096);
  EXPECT_EQ(ParameterCount(Llama(22, 2048, 32, 4, 5632, 32000)), 1'100'048'384);
}

TEST(ModelSpec, AcceptsRealModels) {
  EXPECT_EQ(RefusalOf(Gpt2(12, 768, 12)), "accepted");
  EXPECT_EQ(RefusalOf(Llama(126, 16384, 128, 8, 53248, 128256)), "accepted");
}

TEST(ModelSpec, RefusesCountsOutOfRangeAndNamesFieldValueAndRange) {
  ModelSpec model = Tiny();
  model.layers = -1;
  EXPECT_THAT(RefusalOf(model), AllOf(HasSubstr("layers -1"), HasSubstr("from 1 to 2147483647")));
  model = Tiny();
  model.vocab = 0;
  EXPECT_THAT(RefusalOf(model), HasSubstr("vocab 0"));
  model = Tiny();
  model.hidden = std::int64_t{1} << 62;
  EXPECT_THAT(RefusalOf(model), HasSubstr("hidden 4611686018427387904"));
  model = Tiny();
  model.attention_window = -5;
  EXPECT_THAT(RefusalOf(model), HasSubstr("attention_window -5: must be from 0"));
  model.attention_window = 0;
  model.global_attention_every = 2;
  EXPECT_THAT(RefusalOf(model), HasSubstr("global_attention_every 2: without a window"));
  model.global_attention_every = -1;
  EXPECT_THAT(RefusalOf(model), HasSubstr("global_attention_every -1: must be from 0"));
}

TEST(ModelSpec, RefusesKvHeadsThatDoNotDivideHeadsAndNamesTheNearest) {
  ModelSpec model = Llama(2, 1536, 12, 5, 64, 100);
  EXPECT_THAT(RefusalOf(model),
              AllOf(HasSubstr("kv_heads 5"), HasSubstr("heads 12"), HasSubstr("nearest: 4")));
}

TEST(ModelSpec, RefusesAnOddHeadWithRotaryPositions) {
  ModelSpec model = Llama(2, 12, 4, 4, 64, 100);  // head_dim 3
  EXPECT_THAT(RefusalOf(model),
              AllOf(HasSubstr("head_dim 3"), HasSubstr("even"), HasSubstr("nearest: 2")));
  model.positions = PositionKind::kLearned;
  EXPECT_EQ(RefusalOf(model), "accepted");
}

TEST(ModelSpec, RefusesMoreThan2To56Parameters) {
  ModelSpec model = Tiny();
  model.hidden = kMaxModelCount;  // hidden * heads * head_dim = 2^33 fits, hidden * ffn does not
  model.ffn_hidden = kMaxModelCount;
  EXPECT_THAT(RefusalOf(model), AllOf(HasSubstr("ffn_hidden 2147483647"), HasSubstr("2^56")));
  // Each product fits, but not the sum over layers: 2^31 * 2^20 * 2^20 > 2^56.
  model = Tiny();
  model.layers = kMaxModelCount;
  model.hidden = 1 << 20;
  model.ffn_hidden = 1 << 20;
  EXPECT_THAT(RefusalOf(model), AllOf(HasSubstr("layers 2147483647"), HasSubstr("2^56")));
}

TEST(ModelSpec, RefusesRealNumbersThatAreNone) {
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    ModelSpec model = Tiny();
    model.norm_epsilon = bad;
    EXPECT_THAT(RefusalOf(model), HasSubstr("norm_epsilon")) << bad;
    model = Tiny();
    model.rope_theta = bad;
    EXPECT_THAT(RefusalOf(model), HasSubstr("rope_theta")) << bad;
  }
}

TEST(ModelSpec, RefusesNamesThatCannotBeShown) {
  ModelSpec model = Tiny();
  model.name = "a\x1b[31m";
  EXPECT_THAT(RefusalOf(model), HasSubstr("control character (code 27)"));
  model.name = std::string(201, 'x');
  EXPECT_THAT(RefusalOf(model), HasSubstr("201 bytes"));
}

TEST(ModelSpec, NamesOfKindsReadBack) {
  for (const auto norm : {NormKind::kLayerNorm, NormKind::kRmsNorm})
    EXPECT_EQ(ParseNorm(Name(norm)), norm);
  for (std::size_t i = 0; i < kMlpNames.size(); ++i) {
    const auto mlp = static_cast<MlpKind>(i);
    EXPECT_EQ(ParseMlp(Name(mlp)), mlp);
  }
  for (std::size_t i = 0; i < kPositionNames.size(); ++i) {
    const auto kind = static_cast<PositionKind>(i);
    EXPECT_EQ(ParsePositions(Name(kind)), kind);
  }
  EXPECT_EQ(ParseNorm("batchnorm"), std::nullopt);
  EXPECT_EQ(ParseMlp("elu"), std::nullopt);
  EXPECT_EQ(ParsePositions("sinusoidal"), std::nullopt);
}

}  // namespace
}  // namespace foretrain

#include "runtime/parameters/tensor_names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tests/runtime/training.h"

namespace foretrain {
namespace {

ParameterPlace Place(const std::string& name, std::int64_t rows, std::int64_t cols) {
  ParameterPlace place;
  place.name = name;
  place.rows = rows;
  place.cols = cols;
  return place;
}

// The result for a file that contains `mark`.
FileTensor In(const std::string& mark, const ModelSpec& model, const ParameterPlace& place) {
  return TensorNames::OfFile([&](const std::string& name) { return name == mark; }, model)
      .For(place);
}

// 4 heads of 8 rows: row 11 of k is row 3 of head 1. q, k and v have 8 rows a head, interleaved.
TEST(TensorNames, FindQueriesAndKeysThatLieHeadByHead) {
  const FileTensor k = In("gpt_neox.layers.0.attention.query_key_value.weight", TinyGpt(),
                          Place("layers.2.attention.k.weight", 32, 32));
  EXPECT_EQ(k.name, "gpt_neox.layers.2.attention.query_key_value.weight");
  EXPECT_EQ(k.Row(11), 1 * 24 + 8 + 3);
  EXPECT_EQ(k.Row(0), 8);
  EXPECT_FALSE(k.transposed);
}

// 4 of a head's 8 rows use RoPE, in pairs (0 1) and (2 3) in the file, (0 2) and (1 3) here.
TEST(TensorNames, FindRotaryPairsThatLieBesideEachOther) {
  ModelSpec model = TinyLlama();
  model.rotary_dim = 4;
  const FileTensor q = In("model.layers.0.post_self_attn_layernorm.weight", model,
                          Place("layers.0.attention.q.weight", 32, 32));
  EXPECT_EQ(q.name, "model.layers.0.self_attn.q_proj.weight");
  const std::int64_t rows[] = {0, 2, 1, 3, 4, 5, 6, 7, 8, 10};
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(q.Row(i), rows[i]) << i;
  const FileTensor v = In("model.layers.0.post_self_attn_layernorm.weight", model,
                          Place("layers.0.attention.v.weight", 16, 32));
  EXPECT_EQ(v.Row(1), 1);
}

TEST(TensorNames, FindPartsBehindEachOther) {
  const ModelSpec model = TinyLlama();  // 4 heads and 2 key heads of 8, a width of 64
  const std::string mark = "model.layers.0.self_attn.qkv_proj.weight";
  EXPECT_EQ(In(mark, model, Place("layers.1.attention.v.weight", 16, 32)).first_row, 48);
  const FileTensor up = In(mark, model, Place("layers.1.mlp.up.weight", 64, 32));
  EXPECT_EQ(up.name, "model.layers.1.mlp.gate_up_proj.weight");
  EXPECT_EQ(up.first_row, 64);
}

TEST(TensorNames, KnowTheNormsOfEachFamily) {
  ModelSpec gemma = TinyLlama();
  gemma.mlp = MlpKind::kGeglu;
  const std::string mark = "model.layers.0.pre_feedforward_layernorm.weight";
  const auto name = [&](const char* ours) { return In(mark, gemma, Place(ours, 1, 32)); };
  EXPECT_EQ(name("layers.3.norm2.weight").name, "model.layers.3.pre_feedforward_layernorm.weight");
  EXPECT_EQ(name("layers.3.attention.post_norm.weight").name,
            "model.layers.3.post_attention_layernorm.weight");
  EXPECT_EQ(name("layers.3.norm1.weight").plus, 1.0F);
  EXPECT_EQ(name("head.norm.weight").plus, 1.0F);
  EXPECT_EQ(name("layers.3.attention.k_norm.weight").name,
            "model.layers.3.self_attn.k_norm.weight");
  const FileTensor plain = In("", TinyLlama(), Place("layers.3.norm2.weight", 1, 32));
  EXPECT_EQ(plain.name, "model.layers.3.post_attention_layernorm.weight");
  EXPECT_EQ(plain.plus, 0.0F);
}

TEST(TensorNames, KnowTheExpertsOfMixtralAndOfOthers) {
  const ModelSpec model = TinyExperts();
  const auto place = Place("layers.1.experts.3.mlp.up.weight", 24, 32);
  EXPECT_EQ(In("model.layers.0.block_sparse_moe.gate.weight", model, place).name,
            "model.layers.1.block_sparse_moe.experts.3.w3.weight");
  EXPECT_EQ(In("", model, place).name, "model.layers.1.mlp.experts.3.up_proj.weight");
  EXPECT_EQ(In("", model, Place("layers.1.router.weight", 4, 32)).name,
            "model.layers.1.mlp.gate.weight");
}

// 10 rows a head, the last 4 with RoPE, and 16 rows before the 4 of the shared RoPE key. Pairs are
// adjacent in the file.
TEST(TensorNames, FindTheTurnedRowsOfLatentAttention) {
  const ModelSpec model = TinyLatent();
  const FileTensor q = In("", model, Place("layers.1.attention.q_up.weight", 40, 12));
  EXPECT_EQ(q.name, "model.layers.1.self_attn.q_b_proj.weight");
  for (const auto& [ours, theirs] : {std::pair{0, 0}, {5, 5}, {6, 6}, {7, 8}, {8, 7}, {17, 18}}) {
    EXPECT_EQ(q.Row(ours), theirs) << ours;
  }
  const FileTensor k = In("", model, Place("layers.1.attention.kv_down.weight", 20, 32));
  EXPECT_EQ(k.name, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight");
  for (const auto& [ours, theirs] : {std::pair{15, 15}, {17, 18}, {18, 17}, {19, 19}}) {
    EXPECT_EQ(k.Row(ours), theirs) << ours;
  }
  ModelSpec straight = model;
  straight.query_rank = 0;
  EXPECT_EQ(In("", straight, Place("layers.1.attention.q_up.weight", 40, 32)).name,
            "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(In("", model, Place("layers.1.router.choice.bias", 1, 4)).name,
            "model.layers.1.mlp.gate.e_score_correction_bias");
}

// The MTP layer is the fifth layer of a file with four, plus the tensors that only such a layer
// has.
TEST(TensorNames, FindAnMtpLayerBehindTheOthers) {
  const ModelSpec model = TinyMtp();
  EXPECT_EQ(In("", model, Place("ahead.0.norm1.weight", 1, 32)).name,
            "model.layers.4.input_layernorm.weight");
  EXPECT_EQ(In("", model, Place("ahead.0.tokens.norm.weight", 1, 32)).name,
            "model.layers.4.enorm.weight");
  EXPECT_EQ(In("", model, Place("ahead.0.projection.weight", 32, 64)).name,
            "model.layers.4.eh_proj.weight");
  EXPECT_EQ(In("", model, Place("ahead.0.norm.weight", 1, 32)).name,
            "model.layers.4.shared_head.norm.weight");
}

// All experts of a layer are one tensor [experts, in, out] with gate and up interleaved: 4 experts
// of width 24, hidden width 32.
TEST(TensorNames, FindExpertsThatLieInOneTensor) {
  const ModelSpec model = TinyExperts();
  const std::string base = "model.layers.1.mlp.experts.";
  const auto find = [&](const std::string& rest, std::int64_t rows, std::int64_t cols) {
    return In("model.layers.0.mlp.experts.gate_up_proj_bias", model,
              Place("layers.1.experts.3." + rest, rows, cols));
  };
  const FileTensor up = find("mlp.up.weight", 24, 32), bias = find("mlp.up.bias", 1, 24);
  EXPECT_EQ(up.name, base + "gate_up_proj");
  EXPECT_TRUE(up.transposed);
  EXPECT_EQ(up.first_col, 3 * 32);
  EXPECT_EQ(up.Row(5), 11);
  EXPECT_EQ(find("mlp.gate.weight", 24, 32).Row(5), 10);
  EXPECT_EQ(bias.name, base + "gate_up_proj_bias");
  EXPECT_EQ(bias.Row(5), 3 * 48 + 11);
  EXPECT_EQ(find("mlp.down.weight", 32, 24).first_col, 3 * 24);
  EXPECT_EQ(find("mlp.down.bias", 1, 32).Row(2), 3 * 32 + 2);
}

// Newer files of GPT-NeoX have no embed_out.
TEST(TensorNames, FindAHeadUnderEitherName) {
  const ParameterPlace head = Place("head.weight", 256, 32);
  const std::string mark = "gpt_neox.layers.0.attention.query_key_value.weight";
  EXPECT_EQ(In(mark, TinyGpt(), head).name, "lm_head.weight");
  const auto both = [&](const std::string& name) {
    return name == mark || name == "embed_out.weight";
  };
  EXPECT_EQ(TensorNames::OfFile(both, TinyGpt()).For(head).name, "embed_out.weight");
  EXPECT_EQ(In(mark, TinyGpt(), Place("head.norm.weight", 1, 32)).name,
            "gpt_neox.final_layer_norm.weight");
}

// Files of vision and language models hold the language model behind one of two prefixes.
TEST(TensorNames, FindALanguageModelThatIsJoinedWithOthers) {
  ModelSpec model = TinyLlama();
  model.tied_embeddings = true;
  const auto names = [&](const std::string& embedding) {
    return TensorNames::OfFile([&](const std::string& name) { return name == embedding; }, model);
  };
  const ParameterPlace q = Place("layers.1.attention.q.weight", 32, 32);
  const ParameterPlace norm = Place("head.norm.weight", 1, 32);

  const TensorNames outside = names("language_model.model.embed_tokens.weight");
  EXPECT_EQ(outside.For(q).name, "language_model.model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(outside.For(norm).name, "language_model.model.norm.weight");
  EXPECT_TRUE(outside.Ignores("vision_tower.layers.0.norm.weight"));
  EXPECT_TRUE(outside.Ignores("language_model.lm_head.weight"));
  EXPECT_FALSE(outside.Ignores("language_model.model.layers.9.norm.weight"));

  const TensorNames inside = names("model.language_model.embed_tokens.weight");
  EXPECT_EQ(inside.For(q).name, "model.language_model.layers.1.self_attn.q_proj.weight");
  EXPECT_TRUE(inside.Ignores("model.visual.blocks.0.norm1.weight"));
  EXPECT_TRUE(inside.Ignores("lm_head.weight"));
  EXPECT_FALSE(inside.Ignores("model.language_model.layers.9.norm.weight"));

  const TensorNames alone = names("model.embed_tokens.weight");
  EXPECT_EQ(alone.For(q).name, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_FALSE(alone.Ignores("model.visual.blocks.0.norm1.weight"));
}

TEST(TensorNames, HaveNoneForWhatAFamilyLacks) {
  EXPECT_EQ(In("", TinyLlama(), Place("layers.0.unheard.of", 1, 1)).name, "");
}

}  // namespace
}  // namespace foretrain

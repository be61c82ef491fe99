// Models with a mixture of experts: counts, JSON, checks and import.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/model_json.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 3 layers of width 8, one of them dense. 4 experts of width 4, 2 per token; shared experts of
// width 6.
ModelSpec Small() {
  ModelSpec model;
  model.layers = 3;
  model.hidden = 8;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 4;
  model.ffn_hidden = 16;
  model.vocab = 10;
  model.max_sequence = 32;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = model.tied_embeddings = false;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 4;
  model.shared_ffn_hidden = 6;
  model.first_dense_layers = 1;
  model.router = RouterKind::kSoftmaxTopK;
  model.balance_weight = 0.01;
  return model;
}

std::string Refusal(void (*change)(ModelSpec&)) {
  ModelSpec model = Small();
  change(model);
  const auto valid = ValidateModel(model);
  return valid ? "accepted" : valid.error().message;
}

Result<ImportedModel> Import(const std::string& name, const std::string& from = "",
                             const std::string& to = "") {
  std::ifstream file(TestDataPath("configs/" + name));
  std::ostringstream text;
  text << file.rdbuf();
  std::string config = text.str();
  if (!from.empty()) {
    const auto at = config.find(from);
    EXPECT_NE(at, std::string::npos);
    config.replace(at, from.size(), to);
  }
  return ModelFromHuggingFace(config, name);
}

// Per layer: attention 8 * (2 + 2) * 4 + 8 * 8 = 192 and norms 16, together 208. Dense adds 3 * 8 *
// 16 = 384. Experts add: router 32, each expert 3 * 8 * 4 = 96, shared 3 * 8 * 6 = 144. Tables 160,
// norm 8.
TEST(Experts, AreCountedByHand) {
  ASSERT_TRUE(ValidateModel(Small()).has_value());
  EXPECT_EQ(ParameterCount(Small()), 160 + 8 + (208 + 384) + 2 * (208 + 32 + 4 * 96 + 144));
  // A token uses two of four experts, and the whole router.
  EXPECT_EQ(ActiveParameterCount(Small()), 160 + 8 + (208 + 384) + 2 * (208 + 32 + 2 * 96 + 144));
}

TEST(Experts, PassThroughJsonUnchanged) {
  const auto read = ModelFromJson(ToJson(Small()), "m.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, Small());
}

TEST(Experts, PassThroughJsonWithGroupsAndBalance) {
  ModelSpec model = Small();
  model.balance_tokens = 16;
  model.expert_groups = 2;
  model.groups_per_token = 1;
  ASSERT_TRUE(ValidateModel(model).has_value());
  const auto read = ModelFromJson(ToJson(model), "m.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, model);
}

TEST(Experts, AreLeftOutOfTheJsonOfAModelWithoutThem) {
  ModelSpec dense = Small();
  dense.experts = dense.experts_per_token = dense.expert_ffn_hidden = dense.shared_ffn_hidden = 0;
  dense.first_dense_layers = 0;
  dense.balance_weight = 0;
  dense.router = RouterKind::kTopKSoftmax;
  EXPECT_THAT(ToJson(dense), testing::Not(HasSubstr("expert")));
  const auto read = ModelFromJson(ToJson(dense), "m.json");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, dense);
}

// The second of 3 layers has experts: router 4 * 8, experts 4 * 3 * 8 * 4, shared 3 * 8 * 6. The
// other two have an MLP of 3 * 8 * 16. In `before` two layers have experts.
TEST(Experts, AreInEveryNthLayer) {
  const ModelSpec before = Small();
  ModelSpec model = before;
  model.first_dense_layers = 0;
  model.expert_every = 2;
  ASSERT_TRUE(ValidateModel(model).has_value());
  EXPECT_EQ(model.DenseLayers(), 2);
  EXPECT_FALSE(model.HasExperts(0));
  EXPECT_TRUE(model.HasExperts(1));
  EXPECT_FALSE(model.HasExperts(2));
  EXPECT_EQ(ParameterCount(before) - ParameterCount(model), 32 + 384 + 144 - 384);
  model.first_dense_layers = 1;
  model.expert_every = 3;
  EXPECT_EQ(model.DenseLayers(), 2);
  EXPECT_TRUE(model.HasExperts(2));
  const auto read = ModelFromJson(ToJson(model), "m.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, model);
}

TEST(Experts, AreRefusedWithTheRangeWhereTheyCannotBe) {
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.experts_per_token = 5; }),
              HasSubstr("experts_per_token 5: must be from 1 to the 4 experts"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.experts_per_token = 0; }),
              HasSubstr("experts_per_token 0"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.expert_ffn_hidden = 0; }),
              HasSubstr("expert_ffn_hidden 0"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.shared_ffn_hidden = -1; }),
              HasSubstr("shared_ffn_hidden -1"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.first_dense_layers = 3; }),
              HasSubstr("first_dense_layers 3: must be from 0 to 2"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.expert_every = 4; }),
              HasSubstr("expert_every 4: must be from 1 to 3"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.expert_every = 0; }), HasSubstr("expert_every 0"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.balance_weight = -1; }), HasSubstr("balance_weight -1"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.balance_tokens = -1; }), HasSubstr("balance_tokens -1"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.expert_groups = 3, m.groups_per_token = 1; }),
              HasSubstr("expert_groups 3: must divide the 4 experts"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.expert_groups = 4, m.groups_per_token = 1; }),
              HasSubstr("groups_per_token 1: must be from 1 to the 4 groups, with room for 2"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.groups_per_token = 1; }), HasSubstr("expert_groups 0"));
  EXPECT_THAT(Refusal([](ModelSpec& m) { m.experts = 0; }),
              HasSubstr("experts 0: experts_per_token 2"));
  EXPECT_THAT(
      Refusal([](ModelSpec& m) { m.experts = m.hidden = m.expert_ffn_hidden = kMaxModelCount; }),
      HasSubstr("more than 2^56 parameters"));
}

TEST(Experts, MustBeAsWideAsTensorParallelismCanSplit) {
  Plan plan;
  plan.sequence = plan.global_batch = plan.micro_batch = 1;
  plan.tp = 2;
  ModelSpec model = Small();
  model.kv_heads = 2;
  EXPECT_TRUE(ValidatePlan(plan, model).has_value());
  model.shared_ffn_hidden = 5;
  const auto valid = ValidatePlan(plan, model);
  ASSERT_FALSE(valid.has_value());
  EXPECT_THAT(valid.error().message, HasSubstr("shared_ffn_hidden 5"));
}

// Model cards: 46.7 and 12.9 billion. The exact sum of the shapes:
//   32 * (2 * 4096^2 + 2 * 4096 * 1024 + 8 * 4096 + 8 * 3 * 4096 * 14336 + 2 * 4096)
//     + 2 * 32000 * 4096 + 4096.
TEST(Experts, OfMixtralAreImported) {
  const auto imported = Import("mixtral-8x7b-v0.1.json");
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const ModelSpec& model = imported->model;
  EXPECT_EQ(ParameterCount(model), 46'702'792'704);
  EXPECT_NEAR(static_cast<double>(ActiveParameterCount(model)), 12.88e9, 0.005e9);
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.experts_per_token, 2);
  EXPECT_EQ(model.expert_ffn_hidden, 14336);
  EXPECT_EQ(model.shared_ffn_hidden, 0);
  EXPECT_EQ(model.router, RouterKind::kTopKSoftmax);
  EXPECT_DOUBLE_EQ(model.balance_weight, 0.04);  // for 2 experts per token
  EXPECT_EQ(model.attention_window, 0);
  EXPECT_THAT(imported->unknown, ElementsAre());
}

// Published: 57.4 and 14.2 billion, including 28 * 3584 of the shared expert's gate.
TEST(Experts, OfQwen2AreImported) {
  const auto imported = Import("qwen2-57b-a14b.json");
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const ModelSpec& model = imported->model;
  EXPECT_NEAR(static_cast<double>(ParameterCount(model)), 57.409e9, 0.0006e9);
  EXPECT_NEAR(static_cast<double>(ActiveParameterCount(model)), 14.2e9, 0.06e9);
  EXPECT_EQ(model.experts, 64);
  EXPECT_EQ(model.expert_ffn_hidden, 2560);
  EXPECT_EQ(model.shared_ffn_hidden, 20480);
  EXPECT_EQ(model.router, RouterKind::kSoftmaxTopK);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_TRUE(model.shared_gate);
  EXPECT_THAT(imported->notes, ElementsAre());
  EXPECT_THAT(imported->unknown, ElementsAre());
}

TEST(Experts, OfUnknownKindsAreRefusedAtImport) {
  const auto sparse =
      Import("qwen2-57b-a14b.json", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2");
  ASSERT_TRUE(sparse.has_value()) << sparse.error().message;
  EXPECT_EQ(sparse->model.expert_every, 2);
  EXPECT_EQ(sparse->model.DenseLayers(), 14);
  const auto some = Import("qwen2-57b-a14b.json", "\"num_experts\": 64",
                           "\"mlp_only_layers\": [1], \"num_experts\": 64");
  ASSERT_FALSE(some.has_value());
  EXPECT_THAT(some.error().message, HasSubstr("mlp_only_layers"));
  const auto jitter = Import("mixtral-8x7b-v0.1.json", "\"vocab_size\": 32000",
                             "\"router_jitter_noise\": 0.1, \"vocab_size\": 32000");
  ASSERT_FALSE(jitter.has_value());
  EXPECT_THAT(jitter.error().message, HasSubstr("router_jitter_noise"));
}

}  // namespace
}  // namespace foretrain

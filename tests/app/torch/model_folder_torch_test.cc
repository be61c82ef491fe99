// Folders that the Hugging Face library saves are read, and folders that foretrain writes are
// loaded by it, for a small model of each family.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <ostream>
#include <string>

#include "base/io/file_system.h"
#include "base/numeric/random.h"
#include "runtime/parameters/peft.h"
#include "sim/config/model/import/hugging_face.h"
#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-5;  // relative to a loss
// Norms of Gemma are stored minus 1. Our weight of 1 to 2 is rounded by half a unit in its last
// place: 2^-24.
constexpr double kNormRounding = 6e-8;

struct Model {
  const char* name;
  const char* type;
  const char* parts;  // of config.json
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

// Fields of most families.
constexpr const char* kCommon =
    R"("num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, )"
    R"("intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-05, )"
    R"("pad_token_id": 0, )";
constexpr const char* kWindows =
    R"("sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], )";

const Model kModels[] = {
    {"Gpt2", "gpt2",
     R"("n_layer": 3, "n_embd": 64, "n_head": 4, "n_inner": 96, "n_positions": 64, "vocab_size": 256)"},
    {"Llama", "llama", R"("tie_word_embeddings": false, "attention_bias": true, "mlp_bias": true)"},
    {"LlamaStretched", "llama",
     R"("tie_word_embeddings": true, "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16})"},
    {"Mistral", "mistral", R"("tie_word_embeddings": false, "sliding_window": 7)"},
    {"Mixtral", "mixtral",
     R"("tie_word_embeddings": false, "num_local_experts": 4, "num_experts_per_tok": 2)"},
    {"Qwen2", "qwen2", R"("tie_word_embeddings": false)"},
    {"Qwen3", "qwen3", R"("tie_word_embeddings": false, "head_dim": 24)"},
    {"Qwen2Moe", "qwen2_moe",
     R"("tie_word_embeddings": false, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": false, "decoder_sparse_step": 1, "mlp_only_layers": [], "use_sliding_window": false)"},
    {"Qwen3Moe", "qwen3_moe",
     R"("tie_word_embeddings": false, "head_dim": 16, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [])"},
    {"Olmo2", "olmo2", R"("tie_word_embeddings": false)"},
    {"Olmo3", "olmo3",
     R"("sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": false, "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 1.0, "attention_factor": 1.1}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})"},
    {"Olmoe", "olmoe",
     R"("tie_word_embeddings": false, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": false)"},
    {"SmolLm3", "smollm3",
     R"("tie_word_embeddings": true, "no_rope_layer_interval": 2, "no_rope_layers": [1, 0, 1])"},
    {"Cohere", "cohere",
     R"("tie_word_embeddings": true, "layer_norm_eps": 1e-05, "logit_scale": 0.25)"},
    {"Cohere2", "cohere2",
     R"("sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": true, "layer_norm_eps": 1e-05, "logit_scale": 0.25)"},
    {"MiniMaxM2", "minimax_m2",
     R"("tie_word_embeddings": false, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})"},
    {"Gemma", "gemma",
     R"("tie_word_embeddings": true, "head_dim": 16, "hidden_act": "gelu_pytorch_tanh")"},
    {"Gemma2", "gemma2",
     R"("tie_word_embeddings": true, "head_dim": 16, "query_pre_attn_scalar": 20, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 5.0)"},
    {"Gemma3", "gemma3_text",
     R"("tie_word_embeddings": true, "head_dim": 16, "query_pre_attn_scalar": 16, "rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"}})"},
    {"Phi3", "phi3", R"("tie_word_embeddings": false, "sliding_window": 7)"},
    {"DeepSeekV2", "deepseek_v2", R"("tie_word_embeddings": false, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "moe_intermediate_size": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "q_lora_rank": 24, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "norm_topk_prob": false, "routed_scaling_factor": 1.5, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8, "beta_slow": 1, "mscale": 0.8, "mscale_all_dim": 1.0})"},
    {"DeepSeekV3", "deepseek_v3",
     R"("tie_word_embeddings": false, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "moe_intermediate_size": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "q_lora_rank": 24, "n_group": 4, "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8, "beta_slow": 1, "mscale": 0.8, "mscale_all_dim": 1.0})"},
    {"GptOss", "gpt_oss",
     R"("tie_word_embeddings": false, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": true, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": false})"},
};

// Later fields replace earlier ones of the same name.
std::string ConfigOf(const Model& model) {
  const std::string type = model.type;
  json config = json::object();
  const bool is_gpt2 = type == "gpt2";
  const bool has_windows = type == "gemma2" || type == "gemma3_text" || type == "gpt_oss";
  for (const std::string& text :
       {std::string(is_gpt2 ? "" : kCommon), std::string(has_windows ? kWindows : ""),
        std::string(model.parts) + ", "}) {
    config.update(json::parse("{" + text + R"("model_type": ")" + type + "\"}"));
  }
  return config.dump();
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "line " + std::to_string(i * i) + " of " + std::to_string(i) + "; ";
  }
  return text;
}

class ModelFolder : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasTransformers()) GTEST_SKIP() << kNoTransformers;
    folder_.Write("text", Text());
  }

  // Saves a random model to "hub" and returns the library's loss.
  double Save(const Model& model) {
    folder_.Write("config.json", ConfigOf(model));
    return InLibrary("save config.json hub text").at("loss");
  }
  json InLibrary(const std::string& arguments) {
    return WeightsInLibrary(folder_.path(), arguments);
  }
  // The loss of one step, before its update.
  double Loss(const std::string& arguments) {
    const ProgramEnd end =
        RunForetrain(folder_.path(),
                     "train --json --capture off --ranks 1 --model hub/config.json --data text "
                     "--sequence 32 --global-batch 4 --micro-batch 2 --steps 1 " +
                         arguments);
    EXPECT_EQ(end.code, 0) << end.errors;
    const json report = json::parse(end.output.substr(0, end.output.find('\n')), nullptr, false);
    return report.is_object() ? report.at("loss").get<double>() : NAN;
  }
  void Run(const std::string& arguments) {
    const ProgramEnd end = RunForetrain(folder_.path(), arguments);
    ASSERT_EQ(end.code, 0) << end.errors;
  }

  TemporaryFolder folder_;
};

class ModelFolders : public ModelFolder, public testing::WithParamInterface<Model> {};

TEST_P(ModelFolders, AreReadAndWrittenAsTheLibraryDoes) {
  const std::string type = GetParam().type;
  const double expected = Save(GetParam());
  const double loss = Loss("--init hub");
  EXPECT_NEAR(loss, expected, kTolerance * expected);
  Run("convert hub --max-file 60KB --out kept");
  Run("convert hub --model hub/config.json --family " + type + " --out written");
  double rounded = 0;
  const json both = InLibrary("compare hub text kept written");
  for (const char* out : {"kept", "written"}) {
    const json& compared = both.at(out);
    EXPECT_EQ(compared.at("missing"), json::array()) << out;
    EXPECT_EQ(compared.at("unexpected"), json::array()) << out;
    const bool is_gemma = type.starts_with("gemma");
    for (const auto& [name, difference] : compared.at("largest").items()) {
      EXPECT_TRUE(is_gemma && name.find("norm") != std::string::npos) << name;
      EXPECT_LE(difference.get<double>(), kNormRounding) << name;
      rounded = std::max(rounded, difference.get<double>());
    }
    if (is_gemma) {
      EXPECT_NEAR(compared.at("loss").get<double>(), expected, kTolerance * expected) << out;
    } else {
      EXPECT_EQ(compared.at("logits"), 0.0) << out;
    }
  }
  std::cout << GetParam().name << ": loss " << expected << ", relative difference "
            << std::fabs(loss / expected - 1) << ", largest difference of a written weight "
            << rounded << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Families, ModelFolders, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param.name); });

struct Adapted {
  const char* model;
  const char* modules;
  const char* rank;  // of the plan that holds them: 4 for each A that is stored apart
};
void PrintTo(const Adapted& adapted, std::ostream* out) { *out << adapted.model; }

class AdapterFolder : public ModelFolder {
 protected:
  void SetUp() override {
    if (!HasPeft()) GTEST_SKIP() << kNoPeft;
    ModelFolder::SetUp();
  }
};

class AdapterFolders : public AdapterFolder, public testing::WithParamInterface<Adapted> {
 protected:
  static const Model& ModelOf(const std::string& name) {
    for (const Model& model : kModels) {
      if (model.name == name) return model;
    }
    ADD_FAILURE() << name;
    return kModels[0];
  }
};

TEST_P(AdapterFolders, AreReadAsThoseOfTheLibrary) {
  Save(ModelOf(GetParam().model));
  const double expected =
      InLibrary(std::string("adapt hub adapters text ") + GetParam().modules).at("loss");
  const double merged = Loss("--init hub --adapters adapters");
  const double apart = Loss(
      std::string("--init hub --adapters adapters --method lora --lora-rank ") + GetParam().rank);
  EXPECT_NEAR(merged, expected, kTolerance * expected);
  EXPECT_NEAR(apart, expected, kTolerance * expected);
  Run("convert hub --merge-adapters adapters --out merged");
  const json compared = InLibrary("compare hub text merged hub");
  EXPECT_NEAR(compared.at("merged").at("loss").get<double>(), expected, kTolerance * expected);
  const double plain = compared.at("hub").at("loss");
  EXPECT_GT(std::fabs(plain - expected), 1e-3 * expected) << "the adapters do nothing";
  std::cout << GetParam().model << ": loss " << expected << ", relative difference merged "
            << std::fabs(merged / expected - 1) << ", apart " << std::fabs(apart / expected - 1)
            << std::endl;
}

// A and B of all linears, both random.
TEST_P(AdapterFolders, AreWrittenAsTheLibraryReadsThem) {
  Save(ModelOf(GetParam().model));
  const auto model = ModelFromHuggingFace(folder_.Read("hub/config.json"), "config.json");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  Plan plan;
  plan.method = TrainingMethod::kLora;
  plan.lora_rank = 6;
  plan.lora_alpha = 12;
  const TensorSource random = [](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                                 std::span<float> out) -> Result<void> {
    CounterRandom(7, place.name)
        .FillNormal(static_cast<std::uint64_t>(row * place.cols + col), 0.0F, 0.1F, out);
    return {};
  };
  PosixFileSystem files;
  AdapterWriterOptions options;
  options.model_type = ModelOf(GetParam().model).type;
  const auto written =
      WriteAdapters(files, folder_.path() + "/ours", model->model, random, plan, options);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const json library = InLibrary("adapted hub ours text");
  EXPECT_EQ(library.at("missing"), json::array());
  const double expected = library.at("loss");
  EXPECT_GT(std::fabs(library.at("plain").get<double>() - expected), 1e-3 * expected);
  const double apart =
      Loss("--init hub --adapters ours --method lora --lora-rank 6 --lora-alpha 12");
  EXPECT_NEAR(apart, expected, kTolerance * expected);
  EXPECT_NEAR(Loss("--init hub --adapters ours"), expected, kTolerance * expected);
}

// Adapters trained here, in PEFT and merged by convert.
TEST_P(AdapterFolders, AreLoadedByTheLibraryAfterTraining) {
  Save(ModelOf(GetParam().model));
  Run("train --capture off --ranks 1 --model hub/config.json --init hub --data text --sequence 32 "
      "--global-batch 4 --steps 10 --lr 0.01 --method lora --lora-rank 4 --lora-alpha 8 --save");
  Run(std::string("convert checkpoints --adapters-only --out ours --family ") +
      ModelOf(GetParam().model).type);
  Run("convert hub --merge-adapters ours --out merged");
  const json library = InLibrary("adapted hub ours text merged");
  EXPECT_EQ(library.at("missing"), json::array());
  EXPECT_LE(library.at("logits").get<double>(),
            kTolerance * library.at("largest_logit").get<double>());
  const double expected = library.at("loss");
  EXPECT_LT(expected, 0.99 * library.at("plain").get<double>()) << "it did not train";
  EXPECT_NEAR(Loss("--init hub --adapters ours"), expected, kTolerance * expected);
  std::cout << GetParam().model << ": largest difference of a logit "
            << library.at("logits").get<double>() << " of "
            << library.at("largest_logit").get<double>() << std::endl;
}

INSTANTIATE_TEST_SUITE_P(
    Families, AdapterFolders,
    testing::Values(Adapted{"Gpt2", "c_attn,c_proj", "4"}, Adapted{"Llama", "q_proj,v_proj", "8"},
                    Adapted{"Qwen3", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                            "12"},
                    Adapted{"Gemma2", "q_proj,down_proj", "4"},
                    Adapted{"Phi3", "qkv_proj,gate_up_proj", "4"}),
    [](const auto& test) { return std::string(test.param.model); });

TEST_F(AdapterFolder, SaysWhichRankHoldsTheAdapters) {
  Save(kModels[1]);
  InLibrary("adapt hub adapters text q_proj,v_proj");
  const ProgramEnd end = RunForetrain(folder_.path(),
                                      "train --ranks 1 --model hub/config.json --data text "
                                      "--sequence 32 --global-batch 4 --steps 1 "
                                      "--init hub --adapters adapters --method lora --lora-rank 4");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, testing::HasSubstr("use lora_rank 8"));
}

}  // namespace
}  // namespace foretrain

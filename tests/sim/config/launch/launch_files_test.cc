// Launch files in the style of public ones, each with its plan. The expected values follow from the
// files by hand: dp is the ranks over tp, cp and pp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json/json.h"
#include "sim/config/model/model_json.h"
#include "tests/sim/config/launch/launch_reading.h"

namespace foretrain {
namespace {

struct Expected {
  const char* dialect;
  const char* path;
  std::int64_t ranks;  // that the file gives
  // dp, tp, pp, cp, micro-batch, global batch, sequence, precision, ZeRO, recompute
  std::vector<const char*> plan;
  const char* model = "";   // that the file names
  std::int64_t layers = 0;  // of the model that it describes
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.path; }

class LaunchFile : public testing::TestWithParam<Expected> {};

TEST_P(LaunchFile, GivesThePlanThatItStates) {
  const Expected& expected = GetParam();
  const auto launch = ReadLaunchFile(expected.dialect, expected.path);
  ASSERT_TRUE(launch.has_value()) << launch.error().message;
  EXPECT_EQ(launch->ranks, expected.ranks);
  const std::vector<const char*> fields{"dp",          "tp",           "pp",       "cp",
                                        "micro_batch", "global_batch", "sequence", "precision",
                                        "zero_stage",  "recompute"};
  ASSERT_EQ(expected.plan.size(), fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(OptionIn(*launch, fields[i]), expected.plan[i]) << fields[i];
  }
  EXPECT_EQ(launch->model_name, expected.model);
  EXPECT_EQ(launch->model.empty(), expected.layers == 0);
  if (expected.layers > 0) {
    const auto model = ModelFromJson(launch->model, expected.path);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->layers, expected.layers);
  }
  EXPECT_FALSE(launch->account.used.empty());
}

const std::vector<Expected> kFiles{
    {"megatron",
     "megatron/gpt3_175b.sh",
     128,
     {"1", "8", "16", "1", "1", "1536", "2048", "fp16", "0", "none"},
     "",
     96},
    {"megatron",
     "megatron/llama3_8b_fp8.sh",
     8,
     {"4", "1", "1", "2", "1", "128", "8192", "fp8", "1", "none"},
     "",
     32},
    {"megatron",
     "megatron/llama2_70b.slurm",
     128,
     {"4", "8", "4", "1", "1", "512", "4096", "bf16", "1", "selective"},
     "",
     80},
    {"megatron",
     "megatron/mixtral_8x7b.sh",
     32,
     {"8", "1", "4", "1", "1", "256", "4096", "bf16", "1", "none"},
     "",
     32},
    {"megatron",
     "megatron/bert_sized_gpt.sh",
     8,
     {"2", "2", "2", "1", "4", "16", "1024", "fp16", "0", "full"},
     "",
     24},
    {"megatron",
     "megatron/sizes.sh",
     16,
     {"8", "2", "1", "1", "1", "128", "4096", "bf16", "1", "none"},
     "",
     40},
    {"megatron",
     "megatron/deepseek_v3.sh",
     256,
     {"64", "1", "4", "1", "1", "2048", "4096", "bf16", "1", "selective"},
     "",
     28},
    {"megatron",
     "megatron/nemotron_arguments.txt",
     0,
     {"2", "4", "1", "1", "2", "64", "8192", "fp8-block", "1", "full"},
     "",
     32},
    {"megatron",
     "megatron/bridge_llama3_8b.yaml",
     0,
     {"2", "2", "2", "1", "1", "128", "8192", "bf16", "1", "none"},
     "",
     32},
    {"megatron",
     "megatron/bridge_llama3_70b.py",
     0,
     {"1", "2", "2", "2", "1", "128", "8192", "bf16", "1", "none"},
     "llama3-70b"},
    {"torchtitan",
     "torchtitan/llama3_8b.toml",
     0,
     {"8", "1", "1", "1", "1", "8", "8192", "bf16", "3", "selective"},
     "llama3-8b"},
    {"torchtitan",
     "torchtitan/llama3_70b.toml",
     32,
     {"4", "8", "1", "1", "8", "32", "8192", "bf16", "3", "full"},
     "llama3-70b"},
    {"torchtitan",
     "torchtitan/llama3_405b_3d.toml",
     512,
     {"8", "8", "8", "1", "1", "128", "8192", "fp8", "2", "full"},
     "llama3.1-405b"},
    {"torchtitan",
     "torchtitan/qwen3_hsdp.toml",
     8,
     {"8", "1", "1", "1", "2", "64", "4096", "bf16", "2", "none"},
     "qwen3-8b"},
    {"torchtitan",
     "torchtitan/older_long_context.toml",
     0,
     {"1", "2", "1", "4", "1", "1", "131072", "bf16", "3", "full"},
     "llama3-8b"},
    {"torchtitan",
     "torchtitan/overrides.sh",
     8,
     {"2", "2", "2", "1", "1", "8", "4096", "bf16", "2", "none"},
     "llama3-8b"},
    {"deepspeed", "deepspeed/zero2.json", 8, {"8", "1", "1", "1", "4", "64", "", "bf16", "2", ""}},
    {"deepspeed",
     "deepspeed/zero3_offload.json",
     0,
     {"8", "1", "1", "1", "1", "64", "", "fp16", "3", ""}},
    {"deepspeed",
     "deepspeed/zero_infinity.json",
     0,
     {"8", "1", "1", "1", "4", "32", "", "bf16", "3", ""}},
    {"deepspeed",
     "deepspeed/zeropp_ulysses.json",
     0,
     {"2", "1", "1", "4", "1", "2", "", "bf16", "3", ""}},
    {"nanotron",
     "nanotron/tiny_llama.yaml",
     8,
     {"2", "2", "2", "1", "2", "16", "256", "bf16", "0", "none"},
     "",
     8},
    {"nanotron",
     "nanotron/llama_1b.yaml",
     128,
     {"64", "2", "1", "1", "8", "512", "2048", "bf16", "1", "none"},
     "",
     24},
    {"nanotron",
     "nanotron/afab_recompute.yaml",
     16,
     {"4", "1", "4", "1", "1", "64", "4096", "bf16", "1", "full"},
     "",
     32},
    {"huggingface",
     "huggingface/sft_full.yaml",
     0,
     {"8", "", "", "", "2", "128", "2048", "bf16", "", "full"},
     "qwen3-0.6b"},
    {"huggingface",
     "huggingface/lora.sh",
     4,
     {"4", "", "", "", "4", "64", "1024", "bf16", "", "full"},
     "llama3-8b"},
    {"huggingface",
     "huggingface/deepspeed_run.sh",
     8,
     {"8", "1", "1", "1", "2", "64", "1024", "bf16", "3", "full"},
     "gpt2-xl"},
    {"huggingface",
     "huggingface/fsdp_run.sh",
     8,
     {"8", "", "", "", "4", "256", "512", "bf16", "3", "none"},
     "llama2-7b"},
    {"huggingface",
     "huggingface/accelerate_run.sh",
     16,
     {"16", "", "", "", "16", "256", "2048", "bf16", "3", "full"},
     "mistral-7b"},
    // MINIBS samples on each data-parallel rank.
    {"mlperf",
     "mlperf/config_gpt3_64x8.sh",
     512,
     {"16", "4", "8", "1", "2", "2048", "2048", "fp8", "1", ""}},
    {"mlperf",
     "mlperf/config_llama31_8b_1x8.sh",
     8,
     {"8", "1", "1", "1", "2", "32", "8192", "bf16", "1", ""},
     "llama3-8b"},
    {"mlperf",
     "mlperf/config_llama2_70b_lora_8x8.sh",
     64,
     {"8", "4", "1", "2", "1", "8", "8192", "fp8", "1", ""}},
};

std::string NameOfFile(const testing::TestParamInfo<Expected>& test) {
  std::string name = test.param.path;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Public, LaunchFile, testing::ValuesIn(kFiles), NameOfFile);

TEST(LaunchFiles, GiveOptionsThatFollowFromSeveralKeys) {
  const auto llama = ReadLaunchFile("megatron", "megatron/llama2_70b.slurm");
  ASSERT_TRUE(llama.has_value()) << llama.error().message;
  // 80 layers on 4 stages of 5 layers a chunk.
  EXPECT_EQ(OptionIn(*llama, "vpp"), "4");
  EXPECT_EQ(OptionIn(*llama, "schedule"), "interleaved");
  EXPECT_EQ(OptionIn(*llama, "sequence_parallel"), "on");
  EXPECT_EQ(OptionIn(*llama, "vocab_parallel"), "on");
  // Buckets of 40 million gradients of 4 bytes.
  EXPECT_EQ(OptionIn(*llama, "bucket_bytes"), "160000000");
  const auto moe = ReadLaunchFile("megatron", "megatron/deepseek_v3.sh");
  ASSERT_TRUE(moe.has_value()) << moe.error().message;
  EXPECT_EQ(OptionIn(*moe, "ep"), "64");
  EXPECT_EQ(OptionIn(*moe, "expert_tp"), "1");
  EXPECT_EQ(OptionIn(*moe, "recompute_modules"), "expert-activation,norm,mla-up");
  const auto model = ModelFromJson(moe->model, "deepseek_v3.sh");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->head_dim, 128 + 64);
  EXPECT_EQ(model->experts_per_token, 6);
  EXPECT_EQ(model->router, RouterKind::kSigmoid);
  const auto offload = ReadLaunchFile("deepspeed", "deepspeed/zero3_offload.json");
  ASSERT_TRUE(offload.has_value()) << offload.error().message;
  EXPECT_EQ(OptionIn(*offload, "loss_scale"), "65536");  // 2^16
  EXPECT_EQ(OptionIn(*offload, "offload_parameters"), "host");
}

TEST(LaunchFiles, GiveStepsAndLearningRateOfATraining) {
  struct Training {
    const char* dialect;
    const char* path;
    std::int64_t steps;
    double learning_rate;
  };
  for (const Training& one : {Training{"megatron", "megatron/sizes.sh", 1000, 3e-4},
                              Training{"torchtitan", "torchtitan/llama3_70b.toml", 1000, 1.5e-4},
                              Training{"nanotron", "nanotron/llama_1b.yaml", 500000, 5e-4},
                              Training{"deepspeed", "deepspeed/zero2.json", 0, 1e-4},
                              Training{"mlperf", "mlperf/config_gpt3_64x8.sh", 600, 2e-5}}) {
    const auto launch = ReadLaunchFile(one.dialect, one.path);
    ASSERT_TRUE(launch.has_value()) << launch.error().message;
    EXPECT_EQ(launch->steps, one.steps) << one.path;
    EXPECT_DOUBLE_EQ(launch->learning_rate, one.learning_rate) << one.path;
  }
}

// DeepSpeed overlaps by itself only in stage 3. Buckets have 5e8 elements of 2 bytes.
TEST(LaunchFiles, SayWhetherDeepSpeedOverlapsReductions) {
  const auto bucket = [](const std::string& stage) {
    const auto launch = ReadText("deepspeed", "ds.json",
                                 "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": "
                                 "{\"stage\": " +
                                     stage + "}}");
    EXPECT_TRUE(launch.has_value()) << launch.error().message;
    return launch ? OptionIn(*launch, "bucket_bytes") : "";
  };
  EXPECT_EQ(bucket("1"), "1000000000000");
  EXPECT_EQ(bucket("2, \"overlap_comm\": false"), "1000000000000");
  EXPECT_EQ(bucket("2, \"overlap_comm\": true"), "1000000000");
  EXPECT_EQ(bucket("3"), "1000000000");
}

}  // namespace
}  // namespace foretrain

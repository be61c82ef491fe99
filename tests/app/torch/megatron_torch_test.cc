// Distributed checkpoints that Megatron-core saves on several ranks are read, and converted to
// folders of the Hugging Face library.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <ostream>
#include <string>

#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-5;  // relative to a loss

struct Saved {
  const char* name;
  const char* parts;  // of config.json
  const char* ranks;  // tensor, pipeline and expert parallelism
};
void PrintTo(const Saved& saved, std::ostream* out) { *out << saved.name; }

constexpr const char* kCommon =
    R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, )"
    R"("intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-05, )"
    R"("pad_token_id": 0, )";

const Saved kSaved[] = {
    {"Llama", R"("model_type": "llama", "tie_word_embeddings": false)", "1 1 1"},
    {"LlamaOfTensorParallelRanks", R"("model_type": "llama", "tie_word_embeddings": false)",
     "2 1 1"},
    {"LlamaOfAPipeline", R"("model_type": "llama", "tie_word_embeddings": false)", "1 2 1"},
    {"TiedLlama", R"("model_type": "llama", "tie_word_embeddings": true)", "1 1 1"},
    {"Qwen2", R"("model_type": "qwen2", "tie_word_embeddings": false)", "2 1 1"},
    {"Qwen3", R"("model_type": "qwen3", "tie_word_embeddings": false, "head_dim": 24)", "2 2 1"},
    {"MixtralOfExpertParallelRanks",
     R"("model_type": "mixtral", "tie_word_embeddings": false, "num_local_experts": 4, "num_experts_per_tok": 2)",
     "1 1 2"},
};

class MegatronCheckpoints : public testing::TestWithParam<Saved> {
 protected:
  void SetUp() override {
    if (!HasMegatron()) GTEST_SKIP() << kNoMegatron;
    folder_.Write("config.json", std::string("{") + kCommon + GetParam().parts + "}");
    std::string text;
    for (int i = 0; i < 200; ++i) {
      text += "line " + std::to_string(i * i) + " of " + std::to_string(i) + "; ";
    }
    folder_.Write("text", text);
  }
  // The loss of one step, before its update.
  double Loss(const std::string& arguments) {
    const ProgramEnd end =
        RunForetrain(folder_.path(),
                     "train --json --capture off --ranks 1 --model config.json --data text "
                     "--sequence 32 --global-batch 4 --micro-batch 2 --steps 1 " +
                         arguments);
    EXPECT_EQ(end.code, 0) << end.errors;
    const json report = json::parse(end.output.substr(0, end.output.find('\n')), nullptr, false);
    return report.is_object() ? report.at("loss").get<double>() : NAN;
  }

  TemporaryFolder folder_;
};

TEST_P(MegatronCheckpoints, AreReadAsMegatronDoes) {
  CheckpointsInMegatron(folder_.path(), std::string("save config.json saved ") + GetParam().ranks);
  const double expected =
      CheckpointsInMegatron(folder_.path(), "loss config.json saved text").at("loss");
  const double loss = Loss("--init saved");
  EXPECT_NEAR(loss, expected, kTolerance * expected);
  const ProgramEnd end =
      RunForetrain(folder_.path(), "convert saved --model config.json --out hub");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(Loss("--init hub"), loss);
  std::cout << GetParam().name << ": loss " << expected << ", relative difference "
            << std::fabs(loss / expected - 1) << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Ranks, MegatronCheckpoints, testing::ValuesIn(kSaved),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain

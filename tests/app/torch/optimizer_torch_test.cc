// Muon, Adafactor and moving averages, against PyTorch's and transformers'.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

using nlohmann::json;

constexpr const char* kConfig =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "tie_word_embeddings": false})";
constexpr int kSteps = 8;

class TorchOptimizer : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasTransformers()) GTEST_SKIP() << kNoTransformers;
    folder_.Write("config.json", kConfig);
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " of the text; ";
    folder_.Write("text", text);
  }
  // The losses of each step here, from the weights in "first".
  std::vector<double> Losses(const std::string& arguments) {
    const ProgramEnd end =
        RunForetrain(folder_.path(),
                     "train --json --capture off --model config.json --init first --data text "
                     "--sequence 32 --global-batch 8 --lr " +
                         rate_ + " --steps " + std::to_string(kSteps) + " " + arguments);
    EXPECT_EQ(end.code, 0) << end.errors;
    std::vector<double> losses;
    std::istringstream lines(end.output);
    for (std::string line; std::getline(lines, line);) {
      const json step = json::parse(line, nullptr, false);
      if (step.is_object() && step.contains("step") && step.contains("learning_rate")) {
        losses.push_back(step.at("loss"));
      }
    }
    return losses;
  }
  json InLibrary(const std::string& arguments) {
    return TrainInLibrary(folder_.path(), "--config config.json --data text --lr " + rate_ +
                                              " --steps " + std::to_string(kSteps) +
                                              " --save-init first " + arguments);
  }

  void ExpectLosses(const std::vector<double>& expected, const std::string& arguments,
                    double tolerance) {
    const std::vector<double> losses = Losses(arguments);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], tolerance * expected[i]) << arguments << ", step " << i;
    }
  }

  TemporaryFolder folder_;
  std::string rate_ = "3e-3";
};

// Muon's iterations enlarge small singular values, so that roundings of the gradient count for more
// than under AdamW (1e-5).
TEST_F(TorchOptimizer, MuonHasItsLosses) {
  const std::vector<double> expected = InLibrary("--muon").at("losses");
  for (const char* const plan : {"--ranks 1", "--ranks 2 --dp 2 --zero 1"}) {
    ExpectLosses(expected, std::string("--optimizer muon ") + plan, 1e-4);
  }
}

// The first update divides each gradient by its own size, so that roundings of small gradients
// count for more than under AdamW (1e-5).
TEST_F(TorchOptimizer, AdafactorHasItsLosses) {
  rate_ = "0.05";
  const std::vector<double> expected = InLibrary("--adafactor torch").at("losses");
  ASSERT_LT(expected.back(), expected.front() - 0.3) << "steps that count";
  for (const char* const plan : {"--ranks 1", "--ranks 2 --pp 2"}) {
    ExpectLosses(expected, std::string("--optimizer adafactor ") + plan, 1e-4);
  }
}

// The library of transformers adds 1e-30 to squares, where PyTorch has a floor, and its decay is
// multiplied by the scaled step. Without decay and at its own rate the formulas are the same.
TEST_F(TorchOptimizer, AdafactorHasTheLossesOfTransformers) {
  rate_ = "1e-2";
  const std::vector<double> expected = InLibrary("--adafactor transformers").at("losses");
  ExpectLosses(expected, "--optimizer adafactor --ranks 1 --weight-decay 0", 1e-4);
}

// The averages, converted, have the loss of the library's, which its own trainer then computes.
TEST_F(TorchOptimizer, MovingAveragesAreItsAveragedModel) {
  InLibrary("--ema 0.8 --save-weights averaged.safetensors");
  Losses("--ranks 1 --ema 0.8 --save saved");
  const ProgramEnd end =
      RunForetrain(folder_.path(), "convert saved --ema --family llama --out hub");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto loss = [&](const std::string& weights) {
    const ProgramEnd one =
        RunForetrain(folder_.path(),
                     "train --json --capture off --ranks 1 --model config.json --data text "
                     "--sequence 32 --global-batch 8 --steps 1 --init " +
                         weights);
    EXPECT_EQ(one.code, 0) << one.errors;
    return json::parse(one.output.substr(0, one.output.find('\n'))).at("loss").get<double>();
  };
  const double expected = loss("averaged.safetensors");
  EXPECT_NEAR(loss("hub"), expected, 1e-5 * expected);
  EXPECT_GT(std::fabs(loss("saved") - expected), 1e-3) << "the newest weights differ";
}

}  // namespace
}  // namespace foretrain

// One rank trains as PyTorch does: the same initial weights and batches give the same losses,
// gradients and weights. Other plans are compared with one rank in
// tests/runtime/equality/equality_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/executor/executor.h"
#include "runtime/parameters/weights.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/program/ir/program.h"
#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"
#include "tests/runtime/gather_tensors.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSteps = 20, kSequence = 32, kBatch = 8;
constexpr float kLearningRate = 3e-4F;

// Relative to the loss: the project's bar. The rest is rounding of fp32, from other orders of
// summation and other formulas of exp and tanh.
constexpr double kLossTolerance = 1e-5;
// Relative to each tensor's norm: sums of 256 tokens, rounded by 2^-24 = 6e-8 per term.
constexpr double kGradientTolerance = 1e-5;
// Relative to the norm of each tensor's change. Adam divides by the root of the second moment: an
// element with a small gradient takes the relative error of that gradient alone.
constexpr double kChangeTolerance = 1e-4;
// ... and relative to the weights, since each step rounds them.
constexpr double kRounding = kSteps * 0x1p-24;

struct Model {
  const char* name;
  const char* config;  // Hugging Face
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

constexpr Model kGpt = {"Gpt", R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 64, "n_head": 4,
  "n_positions": 40, "vocab_size": 256, "layer_norm_epsilon": 1e-5})"};
constexpr Model kGptUntied = {"GptUntied", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 48,
  "n_head": 3, "n_inner": 96, "n_positions": 32, "vocab_size": 300, "layer_norm_epsilon": 1e-4,
  "tie_word_embeddings": false})"};
// Two query heads share a key head.
constexpr Model kLlama = {"Llama", R"({"model_type": "llama", "num_hidden_layers": 3,
  "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 176,
  "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "hidden_act": "silu", "tie_word_embeddings": false})"};
// All query heads share one key head, heads are wider than hidden / heads, and rotary positions
// turn slowly.
constexpr Model kLlamaWide = {"LlamaWideHeads", R"({"model_type": "llama", "num_hidden_layers": 2,
  "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
  "intermediate_size": 80, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
  "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": true})"};

// A token sees 7 tokens; in the second layer it sees all.
constexpr Model kMistral = {"MistralWindow", R"({"model_type": "mistral", "num_hidden_layers": 3,
  "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 176,
  "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "hidden_act": "silu", "tie_word_embeddings": false, "sliding_window": 7,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})"};

// About 14 batches long, so that 20 steps start again at another offset.
std::string Text() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "line " + std::to_string(i * i) + " of " + std::to_string(i) + "; ";
  }
  return text;
}

std::string InFolder(const TemporaryFolder& folder, const Model& model) {
  folder.Write("config.json", model.config);
  folder.Write("text", Text());
  return "--data text --sequence " + std::to_string(kSequence) + " ";
}

struct Case {
  const char* name;
  Model model;
  int micro_batch;
  double clip;  // 0: none; 2.5 clips in some of the 20 steps only
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class TorchLosses : public testing::TestWithParam<Case> {};

TEST_P(TorchLosses, AreThoseOfPyTorchOverTwentySteps) {
  if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
  const Case& one = GetParam();
  const TemporaryFolder folder;
  const std::string common = InFolder(folder, one.model) + "--steps " + std::to_string(kSteps) +
                             " --clip " + std::to_string(one.clip) + " ";
  const nlohmann::json torch =
      TrainInTorch(folder.path(), "--config config.json --save-init init.safetensors --batch " +
                                      std::to_string(kBatch) + " " + common);
  ASSERT_TRUE(torch.is_object());
  const ProgramEnd train = RunForetrain(
      folder.path(), "train --json --ranks 1 --model config.json --init init.safetensors " +
                         common + "--global-batch " + std::to_string(kBatch) + " --micro-batch " +
                         std::to_string(one.micro_batch));
  ASSERT_EQ(train.code, 0) << train.errors;

  std::istringstream lines(train.output);
  double largest = 0;
  std::string line;
  for (std::size_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(std::getline(lines, line));
    const nlohmann::json report = nlohmann::json::parse(line);
    const double loss = report.at("loss"), expected = torch.at("losses").at(step);
    largest = std::max(largest, std::fabs(loss - expected) / expected);
    EXPECT_NEAR(loss, expected, kLossTolerance * expected) << "step " << step;
    if (one.clip > 0) {
      const double norm = torch.at("gradient_norms").at(step);
      EXPECT_NEAR(report.at("gradient_norm").get<double>(), norm, kLossTolerance * norm)
          << "step " << step;
    }
  }
  const auto losses = torch.at("losses").get<std::vector<double>>();
  EXPECT_NEAR(losses.front(), std::log(256.0), 0.3) << "an untrained model guesses";
  EXPECT_LT(losses.back(), losses.front() - 0.5) << "it does not learn";
  std::cout << one.name << ", torch " << torch.at("torch").get<std::string>() << ": loss "
            << losses.front() << " -> " << losses.back() << ", largest relative difference "
            << largest << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Models, TorchLosses,
                         testing::Values(Case{"Gpt", kGpt, 8, 0}, Case{"GptClipped", kGpt, 8, 2.5},
                                         Case{"GptAccumulated", kGpt, 2, 0},
                                         Case{"GptAccumulatedAndClipped", kGpt, 1, 2.5},
                                         Case{"GptUntied", kGptUntied, 4, 0},
                                         Case{"Llama", kLlama, 8, 0},
                                         Case{"LlamaClipped", kLlama, 8, 2.5},
                                         Case{"LlamaAccumulated", kLlama, 2, 0},
                                         Case{"LlamaAccumulatedAndClipped", kLlama, 1, 2.5},
                                         Case{"LlamaWideHeads", kLlamaWide, 4, 2.5},
                                         Case{"MistralWindow", kMistral, 4, 2.5}),
                         [](const auto& test) { return std::string(test.param.name); });

struct State {
  TensorMap gradients;  // gradients of the last step
  TensorMap weights;
};

class TorchTensors : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
    auto imported = ModelFromHuggingFace(GetParam().config, "config.json");
    ASSERT_TRUE(imported.has_value()) << imported.error().message;
    model_ = imported->model;
    plan_.sequence = kSequence;
    plan_.global_batch = kBatch;
    plan_.micro_batch = 2;
    auto program = Compile(model_, plan_);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    program_ = std::make_shared<const Program>(*std::move(program));
  }

  // Runs PyTorch in fp64, so that the whole difference is foretrain's.
  void InTorch(std::int64_t steps) {
    const std::string common = InFolder(folder_, GetParam());
    TrainInTorch(folder_.path(), common +
                                     "--config config.json --double --save-init init.safetensors "
                                     "--save-gradients gradients.safetensors --save-weights "
                                     "weights.safetensors --batch " +
                                     std::to_string(kBatch) + " --steps " + std::to_string(steps));
  }

  Result<State> InForetrain(std::int64_t steps) {
    FT_ASSIGN(const auto data, TokenData::FromText(Text(), "text", model_.vocab, plan_));
    FT_ASSIGN(const TensorSource init, Source("init.safetensors"));
    RealClock clock;
    ExecutorOptions options;
    options.learning_rate = [](std::int64_t) { return kLearningRate; };
    FT_ASSIGN(const auto executor,
              Executor::Make(program_, CpuDeviceApi(), clock, std::move(options)));
    FT_TRY(FillParameters(*executor, init));
    RunSink sink;
    FT_TRY(executor->Run(steps, *data, sink));
    return State{GatherTensors(*executor, GatheredState::kGradients),
                 GatherTensors(*executor, GatheredState::kParameters)};
  }

  // All tensors of a file, by foretrain's names.
  Result<TensorMap> Read(const std::string& name) {
    FT_ASSIGN(const TensorSource source, Source(name));
    TensorMap tensors;
    for (const ParameterPlace& place : program_->ranks.front().parameters) {
      Tensor& tensor = tensors[place.name];
      tensor.rows = place.rows;
      tensor.cols = place.cols;
      const auto cols = static_cast<std::size_t>(place.cols);
      tensor.values.resize(static_cast<std::size_t>(place.rows) * cols);
      for (std::int64_t row = 0; row < place.rows; ++row) {
        const auto begin = static_cast<std::size_t>(row) * cols;
        FT_TRY(source(place, row, 0, std::span(tensor.values).subspan(begin, cols)));
      }
    }
    return tensors;
  }

  Result<TensorSource> Source(const std::string& name) {
    PosixFileSystem files;
    FT_ASSIGN(const Weights weights, OpenWeights(files, folder_.path() + "/" + name, model_));
    return weights.source;
  }

  TemporaryFolder folder_;
  ModelSpec model_;
  Plan plan_;
  std::shared_ptr<const Program> program_;
};

//
// a - b
// , or
// a
// if b is null.
double Norm(const Tensor& a, const Tensor* b = nullptr) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double value = static_cast<double>(a.values[i]) - (b != nullptr ? b->values[i] : 0.0F);
    sum += value * value;
  }
  return std::sqrt(sum);
}

// A key's bias shifts all scores of a query alike, which the softmax cancels. Its gradient is only
// rounding, and Adam turns that into steps.
bool HasNoGradient(const std::string& name) { return name.ends_with("attention.k.bias"); }

TEST_P(TorchTensors, GradientsOfAStepAreThoseOfPyTorch) {
  InTorch(1);
  const auto state = InForetrain(1);
  const auto expected = Read("gradients.safetensors");
  ASSERT_TRUE(state.has_value()) << state.error().message;
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  const TensorMap& actual = state->gradients;
  ASSERT_EQ(actual.size(), expected->size());
  double all = 0, largest = 0;
  for (const auto& [name, gradient] : *expected) all = std::hypot(all, Norm(gradient));
  for (const auto& [name, gradient] : *expected) {
    if (HasNoGradient(name)) {
      EXPECT_LT(Norm(actual.at(name)), 1e-7 * all) << name;
      continue;
    }
    const double difference = Norm(actual.at(name), &gradient) / Norm(gradient);
    EXPECT_LT(difference, kGradientTolerance) << name;
    largest = std::max(largest, difference);
  }
  std::cout << GetParam().name << ": largest difference of a tensor's gradient " << largest
            << " of its norm" << std::endl;
}

TEST_P(TorchTensors, WeightsAfterTwentyStepsAreThoseOfPyTorch) {
  InTorch(kSteps);
  const auto state = InForetrain(kSteps);
  const auto before = Read("init.safetensors"), expected = Read("weights.safetensors");
  ASSERT_TRUE(state.has_value()) << state.error().message;
  ASSERT_TRUE(before.has_value() && expected.has_value());
  const TensorMap& actual = state->weights;
  ASSERT_EQ(actual.size(), expected->size());
  double largest = 0;
  for (const auto& [name, weight] : *expected) {
    if (HasNoGradient(name)) continue;
    const double change = Norm(weight, &before->at(name));
    // AdamW moves an element with a gradient by about the learning rate per step.
    EXPECT_GT(change, kLearningRate) << name << " has not been trained";
    const double difference = Norm(actual.at(name), &weight);
    EXPECT_LT(difference, kChangeTolerance * change + kRounding * Norm(weight)) << name;
    largest = std::max(largest, difference / change);
  }
  std::cout << GetParam().name << ": largest difference of a tensor " << largest << " of its change"
            << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Models, TorchTensors,
                         testing::Values(kGpt, kGptUntied, kLlama, kLlamaWide, kMistral),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain

// `foretrain convert`, and training from folders of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/io/file_system.h"
#include "runtime/parameters/peft.h"
#include "runtime/parameters/weight_writer.h"
#include "sim/config/model/import/hugging_face.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kConfig =
    R"({"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 256,
        "max_position_embeddings": 64, "sliding_window": 7, "rms_norm_eps": 1e-05,
        "torch_dtype": "float16", "eos_token_id": 7})";
// 2 tables of 256 x 32, a norm, and in a layer 2 norms, q and o of 32 x 32, k and v of 16 x 32, and
// gate, up and down of 48 x 32, in 2 bytes each.
constexpr std::int64_t kTensors = 3 + 2 * 9;
constexpr std::int64_t kBytes =
    2 * (2 * 256 * 32 + 32 + 2 * (2 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32));

class Convert : public testing::Test {
 protected:
  // A folder "hub" with a tokenizer and weights in several fp32 files.
  void SetUp() override {
    auto model = ModelFromHuggingFace(kConfig, "config.json");
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = model->model;
    WeightWriterOptions options;
    options.config = kConfig;
    options.max_file_bytes = 20'000;
    options.more["tokenizer.json"] = "{}";
    const auto written =
        WriteWeights(files_, Path("hub"), model_, InitialWeights(model_, 3), options);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    EXPECT_GT(written->files, 1);
    std::string text;
    for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i) + "; ";
    folder_.Write("text", text);
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  ProgramEnd Run(const std::string& arguments) const {
    return RunForetrain(folder_.path(), arguments);
  }
  double Loss(const std::string& arguments) const {
    const ProgramEnd end =
        Run("train --json --capture off --ranks 1 --data text --sequence 16 --global-batch 2 "
            "--steps 1 " +
            arguments);
    EXPECT_EQ(end.code, 0) << end.errors;
    const json step = json::parse(end.output.substr(0, end.output.find('\n')), nullptr, false);
    return step.is_object() ? step.at("loss").get<double>() : 0;
  }

  TemporaryFolder folder_;
  PosixFileSystem files_;
  ModelSpec model_;
};

TEST_F(Convert, KeepsConfigAndTokenizerAndTellsWhatItWrote) {
  const ProgramEnd end = Run("convert hub --precision bf16 --out half --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(json::parse(end.output),
            json::parse(R"({"schema": 1, "out": "half",
      "model_type": "mistral", "precision": "bf16", "tensors": )" +
                        std::to_string(kTensors) + R"(, "bytes": )" + std::to_string(kBytes) +
                        R"(, "files": 1, "left_out": []})"));
  json config = json::parse(kConfig);
  config["torch_dtype"] = "bfloat16";
  EXPECT_EQ(json::parse(folder_.Read("half/config.json")), config);
  EXPECT_EQ(folder_.Read("half/tokenizer.json"), "{}");
  const ProgramEnd again = Run("convert half --out again");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_THAT(again.output, HasSubstr("tensors of bf16")) << "as FROM has them";
  EXPECT_EQ(folder_.Read("again/model.safetensors"), folder_.Read("half/model.safetensors"));
}

TEST_F(Convert, WritesAFileOfWeightsForTheModelThatIsNamed) {
  ASSERT_EQ(Run("convert hub --out one").code, 0);
  const ProgramEnd end = Run(
      "convert one/model.safetensors --model hub/config.json --family mistral --out two --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(json::parse(end.output).at("model_type"), "mistral");
  EXPECT_EQ(folder_.Read("two/model.safetensors"), folder_.Read("one/model.safetensors"));
  const double loss = Loss("--init hub");
  EXPECT_EQ(Loss("--init two"), loss) << "the folder says which model it is";
  EXPECT_EQ(Loss("--init one/model.safetensors --model two/config.json"), loss);
}

TEST_F(Convert, MergesAdaptersAsTrainingDoes) {
  Plan plan;
  plan.method = TrainingMethod::kLora;
  plan.lora_rank = 4, plan.lora_alpha = 8;
  const auto filled = [](const ParameterPlace& place, std::int64_t row, std::int64_t,
                         std::span<float> out) -> Result<void> {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = 0.01F * static_cast<float>((static_cast<std::size_t>(row) + 3 * i) % 7) *
               (place.decays ? 1.0F : 0.0F);
    }
    return {};
  };
  AdapterWriterOptions options;
  options.model_type = "mistral";
  ASSERT_TRUE(WriteAdapters(files_, Path("lora"), model_, filled, plan, options).has_value());
  const ProgramEnd end = Run("convert hub --merge-adapters lora --out merged");
  ASSERT_EQ(end.code, 0) << end.errors;
  const double merged = Loss("--init merged");
  EXPECT_NE(merged, Loss("--init hub"));
  EXPECT_EQ(merged, Loss("--init hub --adapters lora"));
  EXPECT_NEAR(merged, Loss("--init hub --adapters lora --method lora --lora-rank 4 --lora-alpha 8"),
              1e-5 * merged);
}

// The training evaluates the first batch of its text after its last step, which is the batch of the
// first step of another one.
TEST_F(Convert, WritesTheAdaptersThatWereTrained) {
  const std::string lora = " --method lora --lora-rank 4 --lora-alpha 8";
  const ProgramEnd trained =
      Run("train --json --capture off --ranks 1 --data text --sequence 16 --global-batch 2 "
          "--steps 5 --lr 0.01 --init hub --eval-data text --eval-batches 1 --save" +
          lora);
  ASSERT_EQ(trained.code, 0) << trained.errors;
  const json result = json::parse(trained.output.substr(trained.output.rfind("\n{") + 1));
  const double expected = result.at("evaluation_loss");
  const ProgramEnd end = Run("convert checkpoints --adapters-only --out ours --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(json::parse(end.output).at("model_type"), "mistral");
  EXPECT_NEAR(Loss("--init hub --adapters ours" + lora), expected, 1e-6 * expected);
  EXPECT_NEAR(Loss("--init hub --adapters ours"), expected, 1e-5 * expected);
  EXPECT_GT(std::fabs(Loss("--init hub") - expected), 1e-3 * expected);
}

TEST_F(Convert, RefusesWithASentence) {
  const auto refused = [&](const std::string& arguments, const char* says) {
    const ProgramEnd end = Run("convert " + arguments);
    EXPECT_EQ(end.code, 2) << arguments;
    EXPECT_THAT(end.errors, HasSubstr(says)) << arguments;
  };
  refused("hub", "give FROM and --out DIR");
  refused("hub --out hub", "exists already and is kept");
  refused("hub/model-00001-of-00005.safetensors --out new", "name the model of the weights");
  refused("missing --out new", "missing");
  refused("hub --family llama --out new", "attention_window");
  refused("hub --family bert --out new", "\"bert\" is not written");
  refused("hub --model gpt2-124m --out new", "256 x 32 and the model's embedding.tokens.weight");
  refused("hub --merge-adapters hub --out new", "adapter_config.json");
  refused("hub --adapters-only --out new", "no checkpoint of train --method lora");
  EXPECT_EQ(files_.Stat(Path("new"))->kind, FileKind::kMissing);
}

}  // namespace
}  // namespace foretrain

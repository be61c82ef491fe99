// Adapters: merged into weights, beside them, and as files of the PEFT library.
#include "runtime/parameters/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/parameters/model_tensors.h"
#include "runtime/parameters/peft.h"
#include "runtime/parameters/weights.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/training.h"
#include "tests/runtime/whole_tensors.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

Plan LoraPlan(int rank = 8, double alpha = 16) {
  Plan plan = TinyPlan();
  plan.method = TrainingMethod::kLora;
  plan.lora_rank = rank;
  plan.lora_alpha = alpha;
  return plan;
}

ModelSpec TinyPhi3() {
  ModelSpec model = TinyLlama();
  model.rotary_dim = 4;
  return model;
}

class AdapterFiles : public testing::Test {
 protected:
  AdapterFiles() : folder_(testing::TempDir() + "adapters." + std::to_string(getpid()) + "/lora") {
    std::filesystem::create_directories(ParentFolder(folder_));
  }
  ~AdapterFiles() override { std::filesystem::remove_all(ParentFolder(folder_)); }

  Result<WrittenWeights> Write(const ModelSpec& model, const std::string& type,
                               const TensorMap& tensors, const Plan& plan) {
    std::filesystem::remove_all(folder_);
    AdapterWriterOptions options;
    options.model_type = type;
    return WriteAdapters(files_, folder_, model, SourceOf(tensors), plan, options);
  }
  Result<AdapterOf> Open(const ModelSpec& model, const std::string& type) {
    FT_ASSIGN(const TensorNames names, TensorNames::OfType(type, model));
    return OpenAdapters(files_, folder_, model, names);
  }
  std::string ConfigPath() const { return folder_ + "/adapter_config.json"; }

  std::string folder_;
  PosixFileSystem files_;
};

TEST_F(AdapterFiles, AreReadBackToTheBit) {
  const std::pair<const char*, ModelSpec> models[] = {
      {"gpt2", TinyGpt()}, {"llama", TinyLlama()}, {"phi3", TinyPhi3()}};
  for (const auto& [type, model] : models) {
    const Plan plan = LoraPlan(4, 8);
    const TensorMap tensors = RandomTensors(model, plan);
    const auto written = Write(model, type, tensors, plan);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    const auto read = Open(model, type);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const AdapterOf expected = AdaptersIn(model, SourceOf(tensors), plan);
    int adapted = 0;
    for (const ParameterPlace& place : TensorsOf(model)) {
      const auto a = expected(place), b = (*read)(place);
      ASSERT_TRUE(a.has_value() && b.has_value()) << place.name;
      ASSERT_EQ(a->has_value(), b->has_value()) << type << " " << place.name;
      if (!a->has_value()) continue;
      ++adapted;
      EXPECT_EQ((*a)->a, (*b)->a) << place.name;
      EXPECT_EQ((*a)->b, (*b)->b) << place.name;
      EXPECT_EQ((*b)->scale, 2.0);
    }
    EXPECT_EQ(adapted, 4 * (std::string(type) == "gpt2" ? 6 : 7));
    // Beside the weights in a plan of the same rank.
    const auto beside = WeightsWithAdapters(SourceOf(tensors), *read, model, plan, /*seed=*/1);
    ASSERT_TRUE(beside.has_value()) << beside.error().message;
    const auto again = ReadTensors(model, *beside, plan);
    ASSERT_TRUE(again.has_value());
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(again->at(name).values, tensor.values) << name;
    }
  }
}

// W + 2 B A: a weight of ones, B of 3 and A of 0.5 in rank 2 give 1 + 2 * 2 * 1.5 = 7.
TEST(MergedWeights, AddTheScaledProduct) {
  const auto source = [](const ParameterPlace& place, std::int64_t, std::int64_t,
                         std::span<float> out) -> Result<void> {
    const float value = place.name.ends_with("lora_A.weight")   ? 0.5F
                        : place.name.ends_with("lora_B.weight") ? 3.0F
                                                                : 1.0F;
    std::fill(out.begin(), out.end(), value);
    return {};
  };
  const ModelSpec model = TinyLlama();
  const TensorSource merged = MergedWeights(source, AdaptersIn(model, source, LoraPlan(2, 4)));
  const auto tensors = ReadTensors(model, merged);
  ASSERT_TRUE(tensors.has_value());
  EXPECT_THAT(tensors->at("layers.1.attention.v.weight").values, testing::Each(7.0F));
  EXPECT_THAT(tensors->at("layers.3.mlp.down.weight").values, testing::Each(7.0F));
  EXPECT_THAT(tensors->at("layers.3.norm2.weight").values, testing::Each(1.0F));
  EXPECT_THAT(tensors->at("head.weight").values, testing::Each(1.0F));
}

// q and v have an A each, of rank 2; the run's A has 5 rows: q's, v's and a fresh one.
TEST(WeightsWithAdapters, StoreDifferentFactorsInDifferentRows) {
  const ModelSpec model = TinyLlama();
  const AdapterOf adapters = [](const ParameterPlace& weight) -> Result<std::optional<LowRank>> {
    const bool q = weight.name.ends_with("attention.q.weight");
    if (!q && !weight.name.ends_with("attention.v.weight")) return std::optional<LowRank>();
    LowRank change;
    change.rank = 2, change.scale = 4;
    change.a.assign(static_cast<std::size_t>(2 * weight.cols), q ? 1.0F : 2.0F);
    change.b.assign(static_cast<std::size_t>(2 * weight.rows), 3.0F);
    return std::optional(std::move(change));
  };
  const TensorSource base = InitialWeights(model, 1);
  const Plan plan = LoraPlan(5, 10);  // scale 2, so that B doubles
  const auto source = WeightsWithAdapters(base, adapters, model, plan, /*seed=*/9);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const auto tensors = ReadTensors(model, *source, plan);
  ASSERT_TRUE(tensors.has_value());
  const auto at = [&](const char* name, std::int64_t row, std::int64_t col) {
    const Tensor& tensor = tensors->at(name);
    return tensor.values[static_cast<std::size_t>(row * tensor.cols + col)];
  };
  const char* const a = "layers.2.attention.qkv.lora_A.weight";
  EXPECT_EQ(at(a, 1, 31), 1.0F);
  EXPECT_EQ(at(a, 2, 0), 2.0F);
  const auto fresh = ReadTensors(model, InitialWeights(model, 9), plan);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(at(a, 4, 3), fresh->at(a).values[4 * 32 + 3]);
  const float of_q[] = {6, 6, 0, 0, 0}, of_v[] = {0, 0, 6, 6, 0};
  for (std::int64_t r = 0; r < 5; ++r) {
    EXPECT_EQ(at("layers.2.attention.q.lora_B.weight", 7, r), of_q[r]);
    EXPECT_EQ(at("layers.2.attention.v.lora_B.weight", 7, r), of_v[r]);
    EXPECT_EQ(at("layers.2.attention.k.lora_B.weight", 7, r), 0.0F);
  }
  const auto small = WeightsWithAdapters(base, adapters, model, LoraPlan(3), /*seed=*/9);
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(small.error().message, HasSubstr("use lora_rank 4"));
}

TEST_F(AdapterFiles, RefuseVariantsByField) {
  const ModelSpec model = TinyLlama();
  const Plan plan = LoraPlan(4);
  ASSERT_TRUE(Write(model, "llama", RandomTensors(model, plan), plan).has_value());
  const auto refused = [&](const std::string& config, const char* says) {
    std::ofstream(ConfigPath()) << config;
    const auto opened = Open(model, "llama");
    ASSERT_FALSE(opened.has_value()) << config;
    EXPECT_THAT(opened.error().message,
                testing::AllOf(HasSubstr("adapter_config.json"), HasSubstr(says)));
  };
  const std::string start = R"({"peft_type": "LORA", "lora_alpha": 8, "r": 4)";
  refused(start + R"(, "use_dora": true})", "use_dora");
  refused(start + R"(, "alpha_pattern": {"q_proj": 3}})", "alpha_pattern");
  refused(start + R"(, "modules_to_save": ["lm_head"]})", "modules_to_save");
  refused(start + R"(, "bias": "all"})", "bias");
  refused(R"({"peft_type": "IA3", "lora_alpha": 8})", "peft_type");
  refused(R"({"peft_type": "LORA"})", "lora_alpha");
  refused("{", "adapter_config.json");
}

TEST_F(AdapterFiles, RefuseAdaptersOfAnotherModelByTensor) {
  const Plan plan = LoraPlan(4);
  ASSERT_TRUE(Write(TinyLlama(), "llama", RandomTensors(TinyLlama(), plan), plan).has_value());
  ModelSpec other = TinyLlama();
  other.layers = 3;
  const auto fewer = Open(other, "llama");
  ASSERT_FALSE(fewer.has_value());
  EXPECT_THAT(fewer.error().message, HasSubstr("base_model.model.model.layers.3."));
  other.layers = 4, other.hidden = 64;
  const auto wider = Open(other, "llama");
  ASSERT_FALSE(wider.has_value());
  EXPECT_THAT(wider.error().message, HasSubstr("4 x 32"));
  const auto as_weights = OpenWeights(files_, folder_, TinyLlama());
  ASSERT_FALSE(as_weights.has_value());
  EXPECT_THAT(as_weights.error().message, HasSubstr("--adapters"));
}

}  // namespace
}  // namespace foretrain

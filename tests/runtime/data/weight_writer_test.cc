// Weights written as folders of the Hugging Face library are read back to the bit. Longer than 400
// lines: it has the model of each family that is written.
#include "runtime/parameters/weight_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "runtime/parameters/model_tensors.h"
#include "runtime/parameters/weight_files.h"
#include "runtime/parameters/weights.h"
#include "sim/config/model/import/hugging_face.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/training.h"
#include "tests/runtime/whole_tensors.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

struct Family {
  const char* type;
  ModelSpec model;
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.type; }

ModelSpec With(ModelSpec model, const std::function<void(ModelSpec&)>& change) {
  change(model);
  return model;
}

ModelSpec Gemma2() {
  return With(TinyLlama(), [](ModelSpec& m) {
    m.mlp = MlpKind::kGeglu;
    m.tied_embeddings = m.post_norms = true;
    m.embedding_scale = std::sqrt(32.0);
    m.attention_softcap = 50;
    m.logit_softcap = 30;
    m.attention_scale = 1 / std::sqrt(20.0);
    m.attention_window = 7;
    m.global_attention_every = 2;
  });
}

ModelSpec Experts() {
  return With(TinyExperts(), [](ModelSpec& m) {
    m.first_dense_layers = m.shared_ffn_hidden = 0;
    m.ffn_hidden = m.expert_ffn_hidden;
  });
}

// Norms behind attention and MLP alone, and over all heads of q and k.
void AfterAlone(ModelSpec& model) {
  model.pre_norms = false;
  model.post_norms = model.qk_norm = model.qk_norm_whole = true;
}

ModelSpec Cohere() {
  return With(TinyLlama(), [](ModelSpec& m) {
    m.norm = NormKind::kLayerNorm;
    m.norm_bias = false;
    m.order = LayerOrder::kParallelOneNorm;
    m.tied_embeddings = true;
    m.logit_scale = 0.25;
  });
}

ModelSpec T5(bool gated) {
  return With(TinyLlama(), [gated](ModelSpec& m) {
    m.encoder_layers = 2;
    m.kv_heads = m.heads;
    m.head_dim = 12;
    m.mlp = gated ? MlpKind::kGeglu : MlpKind::kRelu;
    m.positions = PositionKind::kRelative;
    m.relative_buckets = 8, m.relative_max_distance = 20;
    m.attention_scale = 1;
    m.tied_embeddings = !gated;
    if (!gated) m.logit_scale = 1 / std::sqrt(static_cast<double>(m.hidden));
  });
}

std::vector<Family> Families() {
  return {
      {"t5", T5(false)},
      {"t5", T5(true)},
      {"mt5", T5(true)},
      {"gpt2", TinyGpt()},
      {"gpt2", TinyGpt(false)},
      {"llama", TinyLlama()},
      {"llama", With(TinyLlama(),
                     [](ModelSpec& m) {
                       m.attention_bias = m.output_bias = m.mlp_bias = m.tied_embeddings = true;
                       m.rope_scaling = RopeScaling::kLlama3;
                       m.rope_factor = 8, m.rope_original = 16, m.rope_low = 1, m.rope_high = 4;
                     })},
      {"mistral", With(TinyLlama(), [](ModelSpec& m) { m.attention_window = 7; })},
      {"qwen2", With(TinyLlama(), [](ModelSpec& m) { m.attention_bias = true; })},
      {"qwen2", With(TinyLlama(),
                     [](ModelSpec& m) {
                       m.attention_bias = true;
                       m.attention_window = 7, m.global_attention_every = 2;
                     })},
      {"qwen3", With(TinyLlama(), [](ModelSpec& m) { m.qk_norm = true, m.head_dim = 12; })},
      {"phi3", With(TinyLlama(), [](ModelSpec& m) { m.rotary_dim = 4; })},
      {"gemma", With(TinyLlama(),
                     [](ModelSpec& m) {
                       m.mlp = MlpKind::kGeglu;
                       m.tied_embeddings = true;
                       m.embedding_scale = std::sqrt(32.0);
                     })},
      {"gemma2", Gemma2()},
      {"gemma3_text", With(Gemma2(),
                           [](ModelSpec& m) {
                             m.qk_norm = true;
                             m.global_attention_every = 3;
                             m.rope_theta = 1e6, m.local_rope_theta = 1e4;
                           })},
      {"olmo2", With(TinyLlama(), AfterAlone)},
      {"olmo3", With(TinyLlama(),
                     [](ModelSpec& m) {
                       AfterAlone(m);
                       m.attention_window = 7, m.global_attention_every = 3;
                       m.rope_scaling = RopeScaling::kYarn;
                       m.rope_factor = 4, m.rope_original = 16, m.rope_low = 1, m.rope_high = 8;
                       m.rope_magnitude = 1.125;
                       m.local_rope_theta = m.rope_theta;
                     })},
      {"smollm3", With(TinyLlama(),
                       [](ModelSpec& m) {
                         m.global_attention_every = 2;
                         m.rotate_global = false;
                       })},
      {"cohere", Cohere()},
      {"cohere2", With(Cohere(),
                       [](ModelSpec& m) {
                         m.attention_window = 7, m.global_attention_every = 2;
                         m.rotate_global = false;
                       })},
      {"olmoe", With(Experts(),
                     [](ModelSpec& m) {
                       m.qk_norm = m.qk_norm_whole = true;
                       m.router = RouterKind::kSoftmaxTopK;
                     })},
      {"minimax_m2", With(Experts(),
                          [](ModelSpec& m) {
                            m.qk_norm = m.qk_norm_whole = true;
                            m.router = RouterKind::kSigmoid;
                            m.rotary_dim = 4;
                          })},
      {"mixtral", Experts()},
      {"qwen2_moe", With(Experts(),
                         [](ModelSpec& m) {
                           m.attention_bias = m.shared_gate = true;
                           m.shared_ffn_hidden = 16;
                           m.router = RouterKind::kSoftmaxTopK;
                         })},
      {"llama4_text", With(TinyExperts(),
                           [](ModelSpec& m) {
                             m.first_dense_layers = 0, m.expert_every = 2;
                             m.shared_ffn_hidden = m.expert_ffn_hidden;
                             m.router = RouterKind::kTopKSigmoid;
                             m.weigh_expert_inputs = m.qk_l2_norm = true;
                             m.attention_chunk = 8, m.global_attention_every = 4;
                             m.rotate_global = false;
                           })},
      {"qwen3_moe", With(Experts(), [](ModelSpec& m) { m.qk_norm = true; })},
      {"deepseek_v2", With(TinyLatent(),
                           [](ModelSpec& m) {
                             m.router = RouterKind::kSoftmaxTopK;
                             m.query_rank = 0;
                             m.shared_ffn_hidden = 48;
                             m.router_bias_rate = 0;
                           })},
      {"deepseek_v3", With(TinyMtp(), [](ModelSpec& m) { m.shared_ffn_hidden = 48; })},
      {"gpt_oss", With(Experts(),
                       [](ModelSpec& m) {
                         m.mlp = MlpKind::kClampedSwiglu;
                         m.attention_bias = m.output_bias = m.attention_sinks = true;
                         m.router_bias = m.expert_bias = true;
                         m.attention_window = 7, m.global_attention_every = 2;
                         m.rope_scaling = RopeScaling::kYarn;
                         m.rope_factor = 4, m.rope_original = 16, m.rope_low = 1, m.rope_high = 8;
                         m.rope_magnitude = 1.125;
                       })},
  };
}

class WrittenWeightsTest : public testing::TestWithParam<Family> {
 protected:
  WrittenWeightsTest()
      : folder_(testing::TempDir() + "written." + std::to_string(getpid()) + "/model") {}
  ~WrittenWeightsTest() override { std::filesystem::remove_all(Parent()); }
  void SetUp() override { std::filesystem::create_directories(Parent()); }

  std::string Parent() const { return ParentFolder(folder_); }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  PosixFileSystem files_;
};

// Gemma's norms are stored minus 1, which rounds: weights of a 2^-8 grid have no such rounding.
TensorMap OnAGrid(TensorMap tensors) {
  for (auto& [name, tensor] : tensors) {
    for (float& value : tensor.values) value = std::round(value * 256) / 256;
  }
  return tensors;
}

TEST_P(WrittenWeightsTest, AreReadBackToTheBit) {
  const ModelSpec& model = GetParam().model;
  const TensorMap weights = OnAGrid(RandomTensors(model));
  for (const std::int64_t max_bytes : {std::int64_t{5'000'000'000}, std::int64_t{20'000}}) {
    std::filesystem::remove_all(folder_);
    WeightWriterOptions options;
    options.model_type = GetParam().type;
    options.max_file_bytes = max_bytes;
    const auto written = WriteWeights(files_, folder_, model, SourceOf(weights), options);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    EXPECT_EQ(written->files > 1, max_bytes == 20'000);
    EXPECT_EQ(written->model_type, GetParam().type);
    const auto read = OpenWeights(files_, folder_, model);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_THAT(read->unused, testing::IsEmpty());
    EXPECT_EQ(read->format, NumberFormat::kFp32);
    const auto tensors = ReadTensors(model, read->source);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().message;
    for (const auto& [name, tensor] : weights) {
      EXPECT_EQ(tensors->at(name).values, tensor.values) << name;
    }
    const auto again = ModelFromHuggingFace(Read("config.json"), "config.json");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(TensorsOf(again->model).size(), TensorsOf(model).size());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, WrittenWeightsTest, testing::ValuesIn(Families()),
                         [](const auto& test) {
                           return std::string(test.param.type) + std::to_string(test.index);
                         });

class WeightWriter : public WrittenWeightsTest {};

TEST_F(WeightWriter, RoundsToSixteenBits) {
  const ModelSpec model = TinyLlama();
  const TensorMap weights = RandomTensors(model);
  for (const NumberFormat format : {NumberFormat::kBf16, NumberFormat::kFp16}) {
    std::filesystem::remove_all(folder_);
    WeightWriterOptions options;
    options.format = format;
    ASSERT_TRUE(WriteWeights(files_, folder_, model, SourceOf(weights), options).has_value());
    const auto read = OpenWeights(files_, folder_, model);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->format, format);
    EXPECT_THAT(Read("config.json"),
                HasSubstr(format == NumberFormat::kBf16 ? "bfloat16" : "float16"));
    const auto tensors = ReadTensors(model, read->source);
    ASSERT_TRUE(tensors.has_value());
    // Half a unit in the last place of 8 and of 11 significant bits.
    const double unit = format == NumberFormat::kBf16 ? std::pow(2.0, -8) : std::pow(2.0, -11);
    for (const auto& [name, tensor] : weights) {
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        const double value = tensor.values[i];
        ASSERT_NEAR(tensors->at(name).values[i], value, unit * std::fabs(value) + 6e-8) << name;
      }
    }
  }
}

TEST_F(WeightWriter, ChoosesTheFirstFamilyThatHasAllParts) {
  const auto type = [&](const ModelSpec& model) {
    std::filesystem::remove_all(folder_);
    const auto written = WriteWeights(files_, folder_, model, InitialWeights(model, 1), {});
    return written.has_value() ? written->model_type : written.error().message;
  };
  EXPECT_EQ(type(TinyGpt()), "gpt2");
  EXPECT_EQ(type(TinyLlama()), "llama");
  EXPECT_EQ(type(Gemma2()), "gemma2");
  EXPECT_EQ(type(Experts()), "mixtral");
}

TEST_F(WeightWriter, RefusesAModelThatNoFamilyHasAndNamesThePart) {
  const ModelSpec model = With(TinyLlama(), [](ModelSpec& m) { m.embedding_norm = true; });
  const auto any = WriteWeights(files_, folder_, model, InitialWeights(model, 1), {});
  ASSERT_FALSE(any.has_value());
  EXPECT_EQ(any.error().code, ErrorCode::kUnsupported);
  WeightWriterOptions options;
  options.model_type = "llama";
  const auto named = WriteWeights(files_, folder_, model, InitialWeights(model, 1), options);
  ASSERT_FALSE(named.has_value());
  EXPECT_THAT(named.error().message, HasSubstr("\"embedding_norm\": true"));
  options.model_type = "bert";
  const auto unknown = WriteWeights(files_, folder_, model, InitialWeights(model, 1), options);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("deepseek_v3"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(WeightWriter, RefusesNumbersBeyondTheFormat) {
  const ModelSpec model = TinyLlama();
  TensorMap weights = RandomTensors(model);
  weights.at("layers.2.mlp.up.weight").values[32 * 5 + 7] = 1e5F;  // fp16 ends at 65504
  WeightWriterOptions options;
  options.format = NumberFormat::kFp16;
  const auto written = WriteWeights(files_, folder_, model, SourceOf(weights), options);
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message,
              testing::AllOf(HasSubstr("layers.2.mlp.up.weight"), HasSubstr("row 5, column 7")));
}

TEST_F(WeightWriter, KeepsAFolderThatExists) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/notes") << "mine";
  const auto written =
      WriteWeights(files_, folder_, TinyLlama(), InitialWeights(TinyLlama(), 1), {});
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Read("notes"), "mine");
}

TEST_F(WeightWriter, LeavesNothingBehindWhenTheSourceFails) {
  const auto fails = [](const ParameterPlace& place, std::int64_t, std::int64_t,
                        std::span<float>) -> Result<void> {
    if (place.name != "layers.2.norm2.weight") return {};
    return Fail(ErrorCode::kIo, "torn");
  };
  const auto written = WriteWeights(files_, folder_, TinyLlama(), fails, {});
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().message, "torn");
  EXPECT_TRUE(std::filesystem::is_empty(Parent()));
}

// A folder of several files, damaged in one place each.
class ShardedWeights : public WrittenWeightsTest {
 protected:
  void SetUp() override {
    WrittenWeightsTest::SetUp();
    WeightWriterOptions options;
    options.max_file_bytes = 40'000;
    ASSERT_TRUE(WriteWeights(files_, folder_, TinyLlama(), InitialWeights(TinyLlama(), 1), options)
                    .has_value());
  }
  void Replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = Read(name);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  Error ErrorOf() {
    const auto read = OpenWeights(files_, folder_, TinyLlama());
    EXPECT_FALSE(read.has_value());
    return read.has_value() ? Error{} : read.error();
  }
  static constexpr const char* kIndex = "model.safetensors.index.json";
  static constexpr const char* kTensor = "model.layers.3.mlp.down_proj.weight";
};

TEST_F(ShardedWeights, RefuseAFileThatIsMissing) {
  std::filesystem::remove(folder_ + "/model-00001-of-00006.safetensors");
  EXPECT_EQ(ErrorOf().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ErrorOf().message, HasSubstr("model-00001-of-00006.safetensors"));
}

TEST_F(ShardedWeights, RefuseATensorThatItsFileLacks) {
  Replace(kIndex, std::string("\"") + kTensor + "\": \"model-00005",
          std::string("\"") + kTensor + "\": \"model-00001");
  EXPECT_EQ(ErrorOf().code, ErrorCode::kCorruptInput);
  EXPECT_THAT(ErrorOf().message,
              testing::AllOf(HasSubstr(kTensor), HasSubstr("model-00001-of-00006.safetensors")));
}

TEST_F(ShardedWeights, RefuseAnIndexThatLacksATensorOfTheModel) {
  Replace(kIndex, kTensor, "another.tensor");
  EXPECT_EQ(ErrorOf().code, ErrorCode::kCorruptInput) << "the file lacks it";
}

TEST_F(ShardedWeights, RefuseATornFile) {
  const std::string name = folder_ + "/model-00002-of-00006.safetensors";
  std::filesystem::resize_file(name, std::filesystem::file_size(name) - 4);
  EXPECT_EQ(ErrorOf().code, ErrorCode::kCorruptInput);
  EXPECT_THAT(ErrorOf().message, HasSubstr("model-00002-of-00006.safetensors"));
  std::filesystem::resize_file(name, 40);
  EXPECT_EQ(ErrorOf().code, ErrorCode::kCorruptInput);
}

TEST_F(ShardedWeights, RefuseATornIndex) {
  std::filesystem::resize_file(folder_ + "/" + kIndex, 200);
  EXPECT_EQ(ErrorOf().code, ErrorCode::kCorruptInput);
  EXPECT_THAT(ErrorOf().message, HasSubstr(kIndex));
}

TEST_F(ShardedWeights, RefuseAnOversizedIndex) {
  std::filesystem::resize_file(folder_ + "/" + kIndex, std::uintmax_t{65} << 20);
  EXPECT_EQ(ErrorOf().code, ErrorCode::kInvalidArgument);
}

TEST_F(ShardedWeights, RefuseAFileThatShrinksWhileItIsRead) {
  const auto read = OpenWeights(files_, folder_, TinyLlama());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  std::filesystem::resize_file(folder_ + "/model-00005-of-00006.safetensors", 2000);
  const auto tensors = ReadTensors(TinyLlama(), read->source);
  ASSERT_FALSE(tensors.has_value());
  EXPECT_THAT(tensors.error().message, HasSubstr("has become shorter"));
}

TEST_F(ShardedWeights, ReadNoFileOutsideTheirFolder) {
  for (const char* name :
       {"../secret.safetensors", "/etc/x.safetensors", "", "x.bin", "a/b.safetensors"}) {
    const auto index =
        ParseWeightIndex(std::string(R"({"weight_map": {"a.weight": ")") + name + "\"}}", "index");
    ASSERT_FALSE(index.has_value()) << name;
    EXPECT_EQ(index.error().code, ErrorCode::kCorruptInput);
    EXPECT_THAT(index.error().message, HasSubstr("a.weight"));
  }
  for (const char* text : {"[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 3}})"}) {
    EXPECT_FALSE(ParseWeightIndex(text, "index").has_value()) << text;
  }
}

// Files on the Hub hold masks of several dimensions and other dtypes beside the weights.
TEST_F(ShardedWeights, SayWhichTensorsAreNoPartOfTheModel) {
  const ModelSpec smaller = With(TinyLlama(), [](ModelSpec& m) { m.layers = 3; });
  const auto read = OpenWeights(files_, folder_, smaller);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_THAT(read->unused, testing::Contains(std::string(kTensor)));
  EXPECT_EQ(read->unused.size(), 9U);
}

}  // namespace
}  // namespace foretrain

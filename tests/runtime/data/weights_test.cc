// Weights: equal under every plan, read from other tools' files and from our own. Tests of good and
// damaged files share one writer of safetensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/json/json.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/parameters/tensors.h"
#include "runtime/parameters/weights.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// Writes `tensors` as one F32 file under our names. Both loops walk the map in the same order, so
// offsets and data agree.
Result<void> WriteSafetensors(FileSystem& files, const std::string& path,
                              const TensorMap& tensors) {
  JsonWriter json;
  json.BeginObject();
  std::int64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.values.size() * sizeof(float));
    json.Name(name).BeginObject().Field("dtype", "F32").Name("shape").BeginArray();
    if (tensor.rows > 1) json.Integer(tensor.rows);
    json.Integer(tensor.cols).EndArray().Name("data_offsets").BeginArray();
    json.Integer(at).Integer(at + bytes).EndArray().EndObject();
    at += bytes;
  }
  const std::string header = json.EndObject().Take();
  const auto length = static_cast<std::uint64_t>(header.size());
  std::string text(reinterpret_cast<const char*>(&length), sizeof length);
  text += header;
  for (const auto& [name, tensor] : tensors) {
    text.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
  }
  return WriteFileAtomically(files, path, text);
}

std::unique_ptr<Executor> MakeExecutor(const ModelSpec& model, const Plan& plan, RunClock& clock) {
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value());
  auto made = Executor::Make(std::make_shared<const Program>(*std::move(program)), CpuDeviceApi(),
                             clock, {});
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return *std::move(made);
}

// Fills an executor of the plan with weights and gathers its parameters again.
Result<TensorMap> Through(const ModelSpec& model, const Plan& plan, const TensorSource& source) {
  RealClock clock;
  const auto executor = MakeExecutor(model, plan, clock);
  FT_TRY(FillParameters(*executor, source));
  return GatherTensors(*executor, GatheredState::kParameters);
}

std::vector<Plan> Plans() {
  std::vector<Plan> plans(7, TinyPlan());
  plans[1].dp = 2;
  plans[2].dp = 4, plans[2].zero_stage = 1;
  plans[3].dp = 4, plans[3].zero_stage = 3;
  plans[4].tp = 2;
  plans[5].pp = 4;
  plans[6].dp = plans[6].tp = plans[6].pp = 2, plans[6].zero_stage = 3;
  return plans;
}

TEST(InitialWeights, AreTheSameUnderEveryPlan) {
  for (const ModelSpec& model : {TinyGpt(true), TinyGpt(false), TinyLlama()}) {
    const auto expected = Through(model, TinyPlan(), InitialWeights(model, 9));
    ASSERT_TRUE(expected.has_value());
    for (const Plan& plan : Plans()) {
      const auto actual = Through(model, plan, InitialWeights(model, 9));
      ASSERT_TRUE(actual.has_value());
      EXPECT_EQ(LargestDifference(*expected, *actual), 0.0) << Describe(plan);
    }
    const auto other = Through(model, TinyPlan(), InitialWeights(model, 10));
    EXPECT_GT(LargestDifference(*expected, *other), 0.1);
  }
}

TEST(InitialWeights, HaveTheSpreadOfTheirKind) {
  const auto weights = Through(TinyGpt(), TinyPlan(), InitialWeights(TinyGpt(), 1));
  ASSERT_TRUE(weights.has_value());
  const auto deviation = [&](const std::string& name) {
    double squares = 0;
    const Tensor& tensor = weights->at(name);
    for (const float value : tensor.values) squares += double{value} * value;
    return std::sqrt(squares / static_cast<double>(tensor.values.size()));
  };
  // The deviation of n values is known to 1 / sqrt(2 n): 0.8 % for 8,192, 2.2 % for 1,024. Three
  // times that is allowed.
  EXPECT_NEAR(deviation("embedding.tokens.weight"), 0.02, 0.02 * 0.024);
  EXPECT_NEAR(deviation("layers.1.attention.q.weight"), 0.02, 0.02 * 0.066);
  EXPECT_NEAR(deviation("layers.2.mlp.down.weight"), 0.02 / std::sqrt(8.0), 0.0071 * 0.047);
  EXPECT_EQ(deviation("layers.0.norm1.weight"), 1.0);
  EXPECT_EQ(deviation("layers.0.norm1.bias"), 0.0);
  EXPECT_EQ(deviation("layers.3.attention.v.bias"), 0.0);
}

class WeightFiles : public testing::Test {
 protected:
  WeightFiles() : folder_(testing::TempDir() + "weights." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~WeightFiles() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  struct Entry {
    std::vector<std::int64_t> shape;
    std::string bytes;
    std::string dtype = "F32";
  };
  static Entry F32(std::vector<std::int64_t> shape, const std::function<float(std::int64_t)>& at) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(at(i));
    return {std::move(shape),
            std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4)};
  }
  void Write(const std::string& name, const std::map<std::string, Entry>& entries) const {
    JsonWriter json;
    json.BeginObject().Name("__metadata__").BeginObject().Field("format", "pt").EndObject();
    std::int64_t at = 0;
    std::string data;
    for (const auto& [key, entry] : entries) {
      json.Name(key).BeginObject().Field("dtype", std::string_view(entry.dtype));
      json.Name("shape").BeginArray();
      for (const std::int64_t size : entry.shape) json.Integer(size);
      json.EndArray().Name("data_offsets").BeginArray().Integer(at);
      at += static_cast<std::int64_t>(entry.bytes.size());
      json.Integer(at).EndArray().EndObject();
      data += entry.bytes;
    }
    WriteRaw(name, json.EndObject().Take(), data);
  }
  void WriteRaw(const std::string& name, const std::string& header, const std::string& data) const {
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
    std::ofstream(Path(name), std::ios::binary) << length << header << data;
  }

  // The tensors of a gpt2 as Hugging Face stores them; element i of tensor t is 1000 t + i / 8.
  static std::map<std::string, Entry> Gpt2(const ModelSpec& m, const std::string& prefix) {
    std::map<std::string, Entry> out;
    float base = 0;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
      base += 1000;
      out[prefix + name] = F32(std::move(shape),
                               [base](std::int64_t i) { return base + static_cast<float>(i) / 8; });
    };
    const std::int64_t h = m.hidden, f = m.ffn_hidden;
    add("wte.weight", {m.vocab, h});
    add("wpe.weight", {m.max_sequence, h});
    for (int layer = 0; layer < m.layers; ++layer) {
      const std::string l = "h." + std::to_string(layer) + ".";
      for (const char* norm : {"ln_1", "ln_2"}) {
        add(l + norm + ".weight", {h});
        add(l + norm + ".bias", {h});
      }
      add(l + "attn.c_attn.weight", {h, 3 * h});
      add(l + "attn.c_attn.bias", {3 * h});
      add(l + "attn.c_proj.weight", {h, h});
      add(l + "attn.c_proj.bias", {h});
      add(l + "mlp.c_fc.weight", {h, f});
      add(l + "mlp.c_fc.bias", {f});
      add(l + "mlp.c_proj.weight", {f, h});
      add(l + "mlp.c_proj.bias", {h});
    }
    add("ln_f.weight", {h});
    add("ln_f.bias", {h});
    return out;
  }

  static float FloatIn(const Entry& entry, std::int64_t i) {
    float value = 0;
    std::memcpy(&value, entry.bytes.data() + 4 * i, 4);
    return value;
  }

  std::string folder_;
  PosixFileSystem files_;
};

TEST_F(WeightFiles, ReadsAGpt2WithItsTransposedAndPackedTensors) {
  const ModelSpec model = TinyGpt();
  for (const std::string prefix : {"", "transformer."}) {
    const auto entries = Gpt2(model, prefix);
    Write("model.safetensors", entries);
    auto source = OpenWeights(files_, Path("model.safetensors"), model);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    for (const Plan& plan : Plans()) {
      const auto weights = Through(model, plan, source->source);
      ASSERT_TRUE(weights.has_value()) << weights.error().message;
      const auto ours = [&](const char* name, std::int64_t row, std::int64_t col) {
        const Tensor& tensor = weights->at(name);
        return tensor.values[static_cast<std::size_t>(row * tensor.cols + col)];
      };
      const auto theirs = [&](const char* name, std::int64_t index) {
        return FloatIn(entries.at(prefix + name), index);
      };
      // Conv1D: the file has [in, out], ours is [out, in]. k is the second third of c_attn's
      // columns.
      EXPECT_EQ(ours("layers.2.attention.k.weight", 5, 7),
                theirs("h.2.attn.c_attn.weight", 7 * 96 + 32 + 5));
      EXPECT_EQ(ours("layers.2.attention.v.bias", 0, 31), theirs("h.2.attn.c_attn.bias", 64 + 31));
      EXPECT_EQ(ours("layers.0.attention.out.weight", 3, 30),
                theirs("h.0.attn.c_proj.weight", 30 * 32 + 3));
      EXPECT_EQ(ours("layers.3.mlp.up.weight", 60, 2), theirs("h.3.mlp.c_fc.weight", 2 * 64 + 60));
      EXPECT_EQ(ours("layers.3.mlp.down.weight", 2, 60),
                theirs("h.3.mlp.c_proj.weight", 60 * 32 + 2));
      EXPECT_EQ(ours("layers.1.norm2.bias", 0, 4), theirs("h.1.ln_2.bias", 4));
      EXPECT_EQ(ours("embedding.tokens.weight", 255, 31), theirs("wte.weight", 255 * 32 + 31));
      EXPECT_EQ(ours("embedding.positions.weight", 23, 1), theirs("wpe.weight", 23 * 32 + 1));
      EXPECT_EQ(ours("head.norm.weight", 0, 9), theirs("ln_f.weight", 9));
    }
  }
}

TEST_F(WeightFiles, ReadsALlamaInSixteenBits) {
  const ModelSpec m = TinyLlama();
  std::map<std::string, Entry> entries;
  // bf16 1.5 is 0x3fc0, f16 1.5 is 0x3e00; the second half of the elements is negative.
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, bool bf16) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    Entry entry{std::move(shape), "", bf16 ? "BF16" : "F16"};
    for (std::int64_t i = 0; i < count; ++i) {
      const unsigned bits = (bf16 ? 0x3fc0U : 0x3e00U) | (i >= count / 2 ? 0x8000U : 0U);
      entry.bytes += static_cast<char>(bits & 0xff);
      entry.bytes += static_cast<char>(bits >> 8);
    }
    entries[name] = entry;
  };
  const std::int64_t h = m.hidden, f = m.ffn_hidden, kv = m.kv_heads * m.head_dim;
  add("model.embed_tokens.weight", {m.vocab, h}, true);
  add("lm_head.weight", {m.vocab, h}, false);
  add("model.norm.weight", {h}, true);
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string l = "model.layers." + std::to_string(layer) + ".";
    add(l + "input_layernorm.weight", {h}, true);
    add(l + "post_attention_layernorm.weight", {h}, false);
    add(l + "self_attn.q_proj.weight", {h, h}, true);
    add(l + "self_attn.k_proj.weight", {kv, h}, true);
    add(l + "self_attn.v_proj.weight", {kv, h}, false);
    add(l + "self_attn.o_proj.weight", {h, h}, true);
    add(l + "mlp.gate_proj.weight", {f, h}, true);
    add(l + "mlp.up_proj.weight", {f, h}, false);
    add(l + "mlp.down_proj.weight", {h, f}, true);
  }
  Write("llama.safetensors", entries);
  auto source = OpenWeights(files_, Path("llama.safetensors"), m);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const auto weights = Through(m, TinyPlan(), source->source);
  ASSERT_TRUE(weights.has_value()) << weights.error().message;
  for (const auto& [name, tensor] : *weights) {
    EXPECT_EQ(tensor.values.front(), 1.5F) << name;
    EXPECT_EQ(tensor.values.back(), -1.5F) << name;
  }
}

TEST_F(WeightFiles, WritesWhatItReadsAgain) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    const auto weights = Through(model, TinyPlan(), InitialWeights(model, 4));
    ASSERT_TRUE(WriteSafetensors(files_, Path("own.safetensors"), *weights).has_value());
    auto source = OpenWeights(files_, Path("own.safetensors"), model);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    const auto again = Through(model, Plans().back(), source->source);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(LargestDifference(*weights, *again), 0.0);
  }
}

// Training of adapters starts from a base model's file and resumes from a file with adapters.
TEST_F(WeightFiles, HoldAdaptersByTheirNames) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    const auto base = Through(model, TinyPlan(), InitialWeights(model, 4));
    ASSERT_TRUE(WriteSafetensors(files_, Path("base.safetensors"), *base).has_value());
    Plan plan = TinyPlan();
    plan.method = TrainingMethod::kLora;
    auto source = OpenWeights(files_, Path("base.safetensors"), model, /*seed=*/9);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    const auto fresh = Through(model, plan, source->source);
    ASSERT_TRUE(fresh.has_value()) << fresh.error().message;
    const auto expected = Through(model, plan, InitialWeights(model, 9));
    for (const auto& [name, tensor] : *fresh) {
      const bool adapter = name.find(".lora_") != std::string::npos;
      EXPECT_EQ(tensor.values, (adapter ? *expected : *base).at(name).values) << name;
    }
    EXPECT_EQ(fresh->count("layers.2.attention.qkv.lora_A.weight"), 1U);
    EXPECT_EQ(fresh->at("layers.2.attention.v.lora_B.weight").cols, 8);
    for (const float b : fresh->at("layers.1.mlp.down.lora_B.weight").values) EXPECT_EQ(b, 0.0F);
    ASSERT_TRUE(WriteSafetensors(files_, Path("adapted.safetensors"), *expected).has_value());
    auto adapted = OpenWeights(files_, Path("adapted.safetensors"), model, /*seed=*/1);
    plan.dp = plan.tp = 2;
    plan.zero_stage = 3;
    const auto again = Through(model, plan, adapted->source);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(LargestDifference(*expected, *again), 0.0);
  }
}

TEST_F(WeightFiles, RefusesTheWeightsOfAnotherModelAndNamesTheTensor) {
  auto entries = Gpt2(TinyGpt(), "");
  entries.erase("h.2.mlp.c_fc.weight");
  Write("lacking.safetensors", entries);
  const auto error = [&](const std::string& name) {
    auto source = OpenWeights(files_, Path(name), TinyGpt());
    if (!source.has_value()) return source.error();
    auto weights = Through(TinyGpt(), TinyPlan(), source->source);
    EXPECT_FALSE(weights.has_value());
    return weights.has_value() ? Error{} : weights.error();
  };
  EXPECT_THAT(error("lacking.safetensors").message, HasSubstr("layers.2.mlp.up.weight"));
  entries = Gpt2(TinyGpt(), "");
  entries["wte.weight"] = F32({200, 32}, [](std::int64_t) { return 0.0F; });
  Write("other.safetensors", entries);
  EXPECT_EQ(error("other.safetensors").code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error("other.safetensors").message,
              testing::AllOf(HasSubstr("wte.weight"), HasSubstr("200"), HasSubstr("256")));
}

TEST_F(WeightFiles, RefusesDamagedFilesAndSaysWhy) {
  const auto expect = [&](const std::string& header, std::size_t data, const std::string& why) {
    WriteRaw("damaged.safetensors", header, std::string(data, '\0'));
    const auto source = OpenWeights(files_, Path("damaged.safetensors"), TinyGpt());
    ASSERT_FALSE(source.has_value()) << header;
    EXPECT_EQ(source.error().code, ErrorCode::kCorruptInput) << header;
    EXPECT_THAT(source.error().message,
                testing::AllOf(HasSubstr("damaged.safetensors"), HasSubstr(why)));
  };
  expect("[]", 0, "the header is no JSON object");
  expect("{", 0, "cut off here");
  expect(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
         "tensor a: has 8 bytes, where its shape and dtype need 12");
  expect(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 8,
         "tensor a: ends at byte 79 of a file of 71");
  expect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8,
         "tensor a: ends before it begins");
  expect(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 8,
         "tensor a: its shape has more bytes than can be counted");
  expect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         8, "tensor b begins within a");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
         12, "tensor b begins 4 bytes behind a, and no tensor has those bytes");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
         "tensor a begins 4 bytes behind the header");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8,
         "has 4 bytes behind a that no tensor has");
  expect(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8, "dtype Q4 is not known");
  const auto message = [&](const std::string& bytes) {
    std::ofstream(Path("damaged.safetensors"), std::ios::binary) << bytes;
    const auto source = OpenWeights(files_, Path("damaged.safetensors"), TinyGpt());
    EXPECT_FALSE(source.has_value());
    return source.has_value() ? "" : source.error().message;
  };
  EXPECT_THAT(message("\xff\xff\xff\xff\xff\xff\xff\x7f{}"),
              HasSubstr("its header would be 9223372036854775807 bytes of 10"));
  EXPECT_THAT(message("abc"), HasSubstr("is no safetensors file"));
}

// Headers of 100,000,001 bytes, and of a million tensors without elements: neither is kept in
// memory.
TEST_F(WeightFiles, RefusesHeadersThatAreTooLarge) {
  const std::string path = Path("large.safetensors");
  const auto message = [&] {
    const auto source = OpenWeights(files_, path, TinyGpt());
    EXPECT_FALSE(source.has_value());
    return source.has_value() ? "" : source.error().message;
  };
  std::ofstream(path, std::ios::binary) << std::string("\x01\xe1\xf5\x05\0\0\0\0{", 9);
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_THAT(message(), HasSubstr("its header would be 100000001 bytes of 200000000"));
  std::string header = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  WriteRaw("large.safetensors", header + "}", "");
  EXPECT_THAT(message(), HasSubstr("holds more than 262144 values"));
}

TEST_F(WeightFiles, NamesAFileThatIsCutWhileItIsRead) {
  Write("cut.safetensors", Gpt2(TinyGpt(), ""));
  auto source = OpenWeights(files_, Path("cut.safetensors"), TinyGpt());
  ASSERT_TRUE(source.has_value()) << source.error().message;
  std::filesystem::resize_file(Path("cut.safetensors"),
                               std::filesystem::file_size(Path("cut.safetensors")) / 2);
  const auto weights = Through(TinyGpt(), TinyPlan(), source->source);
  ASSERT_FALSE(weights.has_value());
  EXPECT_EQ(weights.error().code, ErrorCode::kCorruptInput);
  EXPECT_THAT(weights.error().message,
              testing::AllOf(HasSubstr("cut.safetensors: tensor "),
                             HasSubstr("the file has become shorter; copy it again")));
}

}  // namespace
}  // namespace foretrain

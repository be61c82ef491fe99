// Checkpoints of torch.distributed.checkpoint. tests/data/distributed was written by PyTorch on two
// ranks (tests/torch/distributed.py), which also says its numbers.
#include "runtime/parameters/torch/distributed_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "base/numeric/number_formats.h"
#include "runtime/parameters/torch/pickled_tensor.h"
#include "runtime/parameters/torch/tensor_slices.h"
#include "runtime/parameters/weight_files.h"
#include "runtime/parameters/weights.h"
#include "tests/base/fault_file_system.h"
#include "tests/paths.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kHidden = 8, kHeads = 4, kGroups = 2, kWidth = 2, kFfn = 6, kRows = 16;

std::string Seed(const std::string& name) {
  std::ifstream file(SourcePath("tests/data/distributed/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The model whose weights the folder has. Its vocabulary is shorter than the embedding, as with
// Megatron's --make-vocab-size-divisible-by.
ModelSpec Model() {
  ModelSpec model = TinyLlama();
  model.layers = 2;
  model.hidden = kHidden;
  model.heads = kHeads;
  model.kv_heads = kGroups;
  model.head_dim = kWidth;
  model.ffn_hidden = kFfn;
  model.vocab = kRows - 3;
  model.tied_embeddings = false;
  return model;
}

class DistributedCheckpoints : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_TRUE(files_.CreateDirectories("m").has_value());
    for (const char* name : {".metadata", "__0_0.distcp", "__1_0.distcp"}) Put(name, Seed(name));
  }
  void Put(const std::string& name, const std::string& bytes) { files_.Put("m/" + name, bytes); }

  // The description with one text replaced by another of the same length.
  std::string Replaced(std::string_view text, std::string_view by) {
    std::string bytes = Seed(".metadata");
    const auto at = bytes.find(text);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(text.size(), by.size());
    return bytes.replace(at, text.size(), by);
  }
  // The error of opening the weights, or of reading all of them.
  std::string ErrorOf(const ModelSpec& model) {
    const auto weights = OpenWeights(files_, "m", model);
    if (!weights.has_value()) return weights.error().message;
    const auto read = Read(*weights, "layers.1.mlp.down.weight", kHidden, kFfn);
    return read.has_value() ? "" : read.error().message;
  }
  static Result<std::vector<float>> Read(const Weights& weights, const std::string& name,
                                         std::int64_t rows, std::int64_t cols) {
    std::vector<float> all, row(static_cast<std::size_t>(cols));
    ParameterPlace place;
    place.name = name;
    place.rows = rows;
    place.cols = cols;
    for (std::int64_t i = 0; i < rows; ++i) {
      FT_TRY(weights.source(place, i, 0, row));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  FaultFileSystem files_;
};

// Element i of tensor t.
float Number(int tensor, std::int64_t element) {
  return static_cast<float>(1000 * tensor + element) / 1024;
}
float Half(int tensor, std::int64_t element) {
  return FloatOfBf16(Bf16OfFloat(Number(tensor, element)));
}

TEST_F(DistributedCheckpoints, GiveEveryWeightOfAMegatronModel) {
  const auto weights = OpenWeights(files_, "m", Model());
  ASSERT_TRUE(weights.has_value()) << weights.error().message;
  EXPECT_THAT(weights->unused, ElementsAre());
  EXPECT_EQ(weights->format, NumberFormat::kFp32);
  struct Case {
    std::string name;
    std::int64_t rows, cols;
    std::function<float(std::int64_t row, std::int64_t col)> expected;
  };
  std::vector<Case> cases = {
      {"embedding.tokens.weight", kRows - 3, kHidden,
       [](auto row, auto col) { return Number(0, row * kHidden + col); }},
      {"head.norm.weight", 1, kHidden, [](auto, auto col) { return Half(7, col); }},
      {"head.weight", kRows - 3, kHidden,
       [](auto row, auto col) { return Number(8, row * kHidden + col); }}};
  for (const std::int64_t layer : {0, 1}) {
    const std::string of = "layers." + std::to_string(layer) + ".";
    const std::int64_t group = (kHeads / kGroups + 2) * kWidth, q = kHeads / kGroups * kWidth;
    const auto qkv = [=](std::int64_t first, std::int64_t each) {
      return [=](std::int64_t row, std::int64_t col) {
        const std::int64_t at = row / each * group + first + row % each;
        return Number(2, (layer * kGroups * group + at) * kHidden + col);
      };
    };
    const auto matrix = [=](int tensor, std::int64_t rows, std::int64_t cols, std::int64_t first) {
      return [=](std::int64_t row, std::int64_t col) {
        return Number(tensor, (layer * rows + first + row) * cols + col);
      };
    };
    const auto norm = [=](int tensor) {
      return [=](std::int64_t, std::int64_t col) { return Half(tensor, layer * kHidden + col); };
    };
    cases.push_back({of + "norm1.weight", 1, kHidden, norm(1)});
    cases.push_back({of + "attention.q.weight", kHeads * kWidth, kHidden, qkv(0, q)});
    cases.push_back({of + "attention.k.weight", kGroups * kWidth, kHidden, qkv(q, kWidth)});
    cases.push_back(
        {of + "attention.v.weight", kGroups * kWidth, kHidden, qkv(q + kWidth, kWidth)});
    cases.push_back({of + "attention.out.weight", kHidden, kHeads * kWidth,
                     matrix(3, kHidden, kHeads * kWidth, 0)});
    cases.push_back({of + "norm2.weight", 1, kHidden, norm(4)});
    cases.push_back({of + "mlp.gate.weight", kFfn, kHidden, matrix(5, 2 * kFfn, kHidden, 0)});
    cases.push_back({of + "mlp.up.weight", kFfn, kHidden, matrix(5, 2 * kFfn, kHidden, kFfn)});
    cases.push_back({of + "mlp.down.weight", kHidden, kFfn, matrix(6, kHidden, kFfn, 0)});
  }
  for (const Case& of : cases) {
    const auto read = Read(*weights, of.name, of.rows, of.cols);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    for (std::int64_t i = 0; i < of.rows * of.cols; ++i) {
      ASSERT_EQ((*read)[static_cast<std::size_t>(i)], of.expected(i / of.cols, i % of.cols))
          << of.name << " element " << i;
    }
  }
}

TEST_F(DistributedCheckpoints, AreFoundByTheirNumberInMegatronsFolder) {
  EXPECT_TRUE(files_.CreateDirectories("all/iter_0000020").has_value());
  for (const char* name : {".metadata", "__0_0.distcp", "__1_0.distcp"}) {
    files_.Put(std::string("all/iter_0000020/") + name, Seed(name));
  }
  files_.Put("all/latest_checkpointed_iteration.txt", "20\n");
  EXPECT_TRUE(OpenWeights(files_, "all", Model()).has_value());
  for (const char* other : {"21", "release", "../m", ""}) {
    files_.Put("all/latest_checkpointed_iteration.txt", other);
    const auto weights = OpenWeights(files_, "all", Model());
    ASSERT_FALSE(weights.has_value()) << other;
    EXPECT_THAT(weights.error().message, HasSubstr("latest_checkpointed_iteration.txt: names"));
    EXPECT_THAT(weights.error().message, HasSubstr("--ckpt-format torch_dist"));
  }
}

TEST_F(DistributedCheckpoints, RefuseWhatIsDamagedByFileAndTensor) {
  Put(".metadata", Replaced("__0_0.distcp", "../_0.distcp"));
  EXPECT_THAT(ErrorOf(Model()),
              HasSubstr("m/.metadata: tensor embedding.word_embeddings.weight: "));
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("in a file that is not in the folder"));
  Put(".metadata", Replaced("offsets", "0ffsets"));
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("has a chunk outside of its shape"));
  Put(".metadata", Replaced("storage_data", "storage_dat4"));
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("describes no checkpoint"));
  Put(".metadata", "\x80\x04N.");
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("describes no checkpoint"));
  Put(".metadata", Seed(".metadata"));

  // Halves of a checkpoint from another one: the chunks do not lie where the description says.
  Put("__1_0.distcp", Seed("__0_0.distcp") + std::string(20000, '\0'));
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("m/__1_0.distcp: "));
  Put("__1_0.distcp", Seed("__1_0.distcp").substr(0, 4000));
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("m/__1_0.distcp: ends before tensor "));
  EXPECT_TRUE(files_.Remove("m/__1_0.distcp").has_value());
  EXPECT_THAT(ErrorOf(Model()), HasSubstr("names __1_0.distcp, which is not in the folder"));
  Put("__1_0.distcp", Seed("__1_0.distcp"));
  ModelSpec other = Model();
  other.ffn_hidden = 2 * kFfn;
  EXPECT_THAT(ErrorOf(other), HasSubstr("decoder.layers.0.mlp.linear_fc1.weight is 12 x 8"));
}

TEST_F(DistributedCheckpoints, WithOneWrongByteNeverCrash) {
  std::mt19937 random(1);
  int refused = 0;
  for (const char* name : {".metadata", "__0_0.distcp", "__1_0.distcp"}) {
    const std::string whole = Seed(name);
    for (int i = 0; i < 1000; ++i) {
      std::string damaged = whole;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      Put(name, damaged);
      refused += ErrorOf(Model()).empty() ? 0 : 1;
    }
    for (std::size_t size = 0; size < whole.size(); size += 97) {
      Put(name, whole.substr(0, size));
      refused += ErrorOf(Model()).empty() ? 0 : 1;
    }
    Put(name, whole);
  }
  EXPECT_GT(refused, 100);
}

TEST(TensorSlices, NameLayersExpertsAndLayersThatPredictFurtherTokens) {
  ChunkedTensors tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    tensors[name] = {.dtype = "F32", .shape = std::move(shape), .chunks = {}};
  };
  add("module.decoder.layers.self_attention.linear_proj.weight", {3, 8, 8});
  add("decoder.layers.mlp.experts.experts.linear_fc1.weight", {3, 2, 12, 8});
  add("decoder.layers.2.mlp.experts.experts.linear_fc2.weight", {2, 8, 6});
  add("decoder.layers.1.mlp.linear_fc1.layer_norm_weight", {8});
  add("mtp.layers.0.transformer_layer.input_layernorm.weight", {8});
  add("mtp.layers.0.enorm.weight", {8});
  add("model.model.norm.weight", {8});
  add("model.norm.weight", {8});
  const auto slices = SlicesOf(tensors);
  std::vector<std::string> names;
  for (const auto& [name, slice] : slices) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("decoder.layers.0.mlp.experts.experts.0.linear_fc1.weight",
                                 "decoder.layers.0.mlp.experts.experts.1.linear_fc1.weight",
                                 "decoder.layers.0.self_attention.linear_proj.weight",
                                 "decoder.layers.1.mlp.experts.experts.0.linear_fc1.weight",
                                 "decoder.layers.1.mlp.experts.experts.1.linear_fc1.weight",
                                 "decoder.layers.1.pre_mlp_layernorm.weight",
                                 "decoder.layers.1.self_attention.linear_proj.weight",
                                 "decoder.layers.2.mlp.experts.experts.0.linear_fc1.weight",
                                 "decoder.layers.2.mlp.experts.experts.0.linear_fc2.weight",
                                 "decoder.layers.2.mlp.experts.experts.1.linear_fc1.weight",
                                 "decoder.layers.2.mlp.experts.experts.1.linear_fc2.weight",
                                 "decoder.layers.2.self_attention.linear_proj.weight",
                                 "decoder.layers.3.enorm.weight",
                                 "decoder.layers.3.input_layernorm.weight", "model.norm.weight"));
  const TensorSlice& slice = slices.at("decoder.layers.2.mlp.experts.experts.1.linear_fc1.weight");
  EXPECT_EQ(slice.tensor, "decoder.layers.mlp.experts.experts.linear_fc1.weight");
  EXPECT_THAT(slice.leading, ElementsAre(2, 1));
}

}  // namespace
}  // namespace foretrain

// Names and layout of a model's tensors in files of other tools. safetensors.h reads them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/config/model/model_spec.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Location of one of our tensors in a file. `name` is empty if the file's family has none.
struct FileTensor {
  std::string name;
  bool transposed = false;     // the file stores the weight as [in, out]
  std::int64_t first_row = 0;  // in a tensor that holds several, one after the other
  // In a tensor that holds `interleaved` tensors by head: `head_dim` rows of each in turn.
  std::int64_t interleaved = 1;
  std::int64_t part = 0;  // index among them
  // One of several, stacked in a tensor with one more dimension: a weight's columns, or a vector's
  // start, begin at first_col or first_row.
  bool stacked = false;
  std::int64_t first_col = 0;
  // For q and k: the file stores the rotary pairs of a head's `turned` rows, from turned_first on,
  // next to each other; we store them half of `turned` apart. 0: the file stores them as we do.
  std::int64_t turned = 0;
  std::int64_t turned_first = 0;
  std::int64_t head_dim = 0;
  float plus = 0.0F;  // to add to the file's values

  // The file's row for our row `row`.
  std::int64_t Row(std::int64_t row) const;
};

// True if the file has a tensor of that name.
using HasTensor = std::function<bool(const std::string& name)>;

// The tensor for `place` in a file of the Hugging Face library. The family is recognized by names
// that only it has: gpt2, gpt_bigcode, gptj, gpt_neox, bloom, mpt, opt, phi, phi3, starcoder2,
// gemma2 and 3, glm, glm4. All others use Llama's names: mistral, qwen2, qwen3, gemma, stablelm,
// nemotron, mixtures of experts, deepseek_v2 and 3, gpt_oss.
//
// Norm weights of Gemma and Nemotron are stored minus 1. They are recognized by the model: no other
// family here has a gated GELU or a squared ReLU.
FileTensor LibraryTensor(const HasTensor& has, const ModelSpec& model, const ParameterPlace& place);

}  // namespace foretrain

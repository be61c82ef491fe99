// What the tensors of a model are called in files of other tools, and how they lie there. Leaves
// out reading them: safetensors.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sim/program/program.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

// Where a tensor of ours lies in a file. `name` is empty where the file's family has none.
struct FileTensor {
  std::string name;
  bool transposed = false;     // a weight is [in, out]
  std::int64_t first_row = 0;  // in a tensor that holds several, one behind the other
  // In a tensor that holds `interleaved` of them by head: rows of `head_dim` of each in turn.
  std::int64_t interleaved = 1;
  std::int64_t part = 0;  // which of them
  // One of several in a tensor of one more dimension: a weight's columns, or what is before a
  // vector, begin there.
  bool stacked = false;
  std::int64_t first_col = 0;
  // Of q and k: rotary pairs of a head's `turned` rows from turned_first on lie beside each other
  // in the file, and half of `turned` apart here; 0: there too.
  std::int64_t turned = 0;
  std::int64_t turned_first = 0;
  std::int64_t head_dim = 0;
  float plus = 0.0F;  // the file has values less this

  // The file's row of row `row` of ours.
  std::int64_t Row(std::int64_t row) const;
};

// Whether the file has a tensor of the name.
using HasTensor = std::function<bool(const std::string& name)>;

// The tensor that `place` is in a file of the Hugging Face library, whose family is told by names
// that only it has: gpt2, gpt_bigcode, gptj, gpt_neox, bloom, mpt, opt, phi, phi3, starcoder2,
// gemma2 and 3, glm, glm4, else names of Llama, which mistral, qwen2, qwen3, gemma, stablelm,
// nemotron and the mixtures of experts, deepseek_v2 and 3 and gpt_oss among them, share. Gemma's
// and Nemotron's norms lack 1, which is told by the model: no other family here has a gated GELU,
// or a squared ReLU.
FileTensor LibraryTensor(const HasTensor& has, const ModelSpec& model, const ParameterPlace& place);

}  // namespace foretrain

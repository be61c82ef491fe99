// Names and layout of a model's tensors in files of the Hugging Face library and of Megatron. One
// table serves both directions: tensor_names.json. Leaves out the files: weight_files.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Location of one of our tensors in a file. `name` is empty if the file's family has none.
struct FileTensor {
  std::string name;
  bool transposed = false;     // the file stores the weight as [in, out]
  std::int64_t first_row = 0;  // in a tensor that holds several, one after the other
  // In a tensor that holds several in turn: `each` of our rows begin every `apart` rows. 0: all of
  // our rows follow one another.
  std::int64_t each = 0;
  std::int64_t apart = 0;
  // One of several, stacked in a tensor with one more dimension: a weight's columns, or a vector's
  // start, begin at first_col or first_row.
  bool stacked = false;
  std::int64_t first_col = 0;
  // For q and k: the file stores the rotary pairs of a head's `turned` rows, from turned_first on,
  // next to each other; we store them half of `turned` apart. 0: the file stores them as we do.
  std::int64_t turned = 0;
  std::int64_t turned_first = 0;
  std::int64_t head_dim = 0;
  float plus = 0.0F;    // to add to the file's values
  bool vector = false;  // the file has one dimension; also for our column of head biases

  // The file's row for our row `row`; for a vector its element.
  std::int64_t Row(std::int64_t row) const;
  // Element of the file's tensor, whose rows have `file_cols` elements, for (row, col) of ours,
  // whose rows have `cols`.
  std::int64_t Index(std::int64_t row, std::int64_t col, std::int64_t cols,
                     std::int64_t file_cols) const {
    if (vector) return Row(row * cols + col);
    return transposed ? (first_col + col) * file_cols + Row(row) : Row(row) * file_cols + col;
  }
};

// True if a file has a tensor of that name.
using HasTensor = std::function<bool(const std::string& name)>;

struct TensorLayout;  // a row of the table

// A language model within the file of a model that joins it with others: its names that begin with
// `from` begin with `to` there, and the other names that begin with `from` belong to the others.
// Both are empty in a file of its own.
struct JointNames {
  std::string_view from, to;

  std::string InFile(std::string_view name) const;
  bool IsOfOthers(std::string_view file_name) const;
};

// The names and layouts of one family for one model.
class TensorNames {
 public:
  // Those of a file. The family is recognized by a tensor that only it has; others use Llama's
  // names.
  static TensorNames OfFile(const HasTensor& file_has, const ModelSpec& model);
  // Those of a config.json's model_type. Errors: kUnsupported, a type that the table lacks.
  static Result<TensorNames> OfType(std::string_view model_type, const ModelSpec& model);

  // The tensor for `place`, which is whole or a part.
  //
  // Norm weights of Gemma and Nemotron are stored minus 1. They are recognized by the model: no
  // other family of decoders here has a gated GELU or a squared ReLU.
  FileTensor For(const ParameterPlace& place) const;
  // True for a tensor that is none of the model's parameters: masks, tables of frequencies, a tied
  // head, tensors of the models that it is joined with.
  bool Ignores(std::string_view file_name) const;
  // The same with the names that the library's model has, which some files shorten.
  TensorNames Loaded() const;
  // Whether the family's linears are stored as [in, out].
  bool transposes() const;

 private:
  TensorNames(const TensorLayout& layout, const ModelSpec& model)
      : layout_(&layout), model_(model) {}

  // The tensor for `place` in a file of the language model alone.
  FileTensor Alone(const ParameterPlace& place) const;

  const TensorLayout* layout_;
  ModelSpec model_;
  std::string prefix_;          // of all names
  bool head_as_llama_ = false;  // the head has Llama's name, whatever the family
  JointNames joint_;
};

}  // namespace foretrain

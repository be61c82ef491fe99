// Finds the numbers of one tensor that torch.save wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/torch/stored_archive.h"

namespace foretrain {

struct PickledTensor {
  std::string dtype;  // a name of safetensors: "F32"; "" for one that it lacks
  std::vector<std::int64_t> shape;
  FilePart numbers;  // in the file, row-major
};

// The dtype of safetensors for one of PyTorch: "BF16" for "torch.bfloat16". "" if there is none.
std::string_view DtypeOfTorch(std::string_view name);

// Elements of a tensor of `shape`; -1 if it is none: a negative size, more than 8 dimensions, or
// more than 2^48 elements.
std::int64_t ElementsOf(const std::vector<std::int64_t>& shape);

// Reads the description of the tensor in `part` of `file`. No number is read.
//
// Errors: those of ListArchive and ReadPickle; kCorruptInput: the archive holds no tensor, or fewer
// numbers than its shape says; kUnsupported: a tensor that is a strided view, or written by a
// big-endian machine.
Result<PickledTensor> ReadPickledTensor(ReadableFile& file, FilePart part, std::string_view source);

}  // namespace foretrain

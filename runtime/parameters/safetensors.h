// Weights from safetensors files with Hugging Face names. Checkpoints of a run are separate.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/tensors.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

// One tensor of a file: dtype F32, BF16 or F16, its shape, and the file bytes [begin, end).
struct SafetensorEntry {
  std::string dtype;
  std::int64_t rows = 0;  // a vector has one row
  std::int64_t cols = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Parses the header of a safetensors file of `file_bytes` bytes: 8 bytes of length, then JSON.
// `text` is the JSON; offsets in the result count from the start of the file.
//
// Errors: kCorruptInput, naming tensor and field: not JSON, an unknown dtype, more than three
// dimensions, a length that is not shape times dtype, or a tensor outside the file.
Result<std::map<std::string, SafetensorEntry>> ParseSafetensorsHeader(std::string_view text,
                                                                      std::int64_t file_bytes,
                                                                      std::string_view file);

// The weights in `path` as a source for FillParameters, by our names or the Hugging Face library's
// (tensor_names.h). Adapters (`...lora_A.weight`, `...lora_B.weight`) missing from the file are
// initialized from `seed`, so that training can start from a base model's file.
//
// Errors: as the header's; kInvalidArgument, a tensor of the model is missing or has another shape
// (both are named). Reads the whole file.
Result<TensorSource> WeightsFromSafetensors(FileSystem& files, const std::string& path,
                                            const ModelSpec& model, std::uint64_t seed = 0);

}  // namespace foretrain

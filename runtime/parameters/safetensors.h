// Weights from safetensors files under Hugging Face names. Leaves out checkpoints of a run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "runtime/parameters/tensors.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

// One tensor of a file: dtype F32, BF16 or F16, its shape, and the file bytes [begin, end).
struct SafetensorEntry {
  std::string dtype;
  std::int64_t rows = 0;  // a vector has one row
  std::int64_t cols = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The header of a safetensors file of `file_bytes` bytes: 8 bytes of length, then JSON. `text` is
// the JSON; offsets in the result count from the start of the file.
//
// Errors: kCorruptInput, naming tensor and field: not JSON, an unknown dtype, more than two
// dimensions, a length that is not shape times dtype, or a tensor outside the file.
Result<std::map<std::string, SafetensorEntry>> ParseSafetensorsHeader(std::string_view text,
                                                                      std::int64_t file_bytes,
                                                                      std::string_view file);

// The weights in `path` as a source for FillParameters, under our names or those of the Hugging
// Face library (tensor_names.h). Adapters (`...lora_A.weight`, `...lora_B.weight`) that the file
// has not are fresh, of `seed`, so that a base model's file is where their training begins.
//
// Errors: as the header's; kInvalidArgument, a tensor of the model that the file lacks or has with
// another shape (both are named). Reads the whole file.
Result<TensorSource> WeightsFromSafetensors(FileSystem& files, const std::string& path,
                                            const ModelSpec& model, std::uint64_t seed = 0);

// Writes `tensors` as one F32 file under our names.
Result<void> WriteSafetensors(FileSystem& files, const std::string& path, const TensorMap& tensors);

}  // namespace foretrain

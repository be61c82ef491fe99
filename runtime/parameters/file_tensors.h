// Gathers tensors of the model into the tensors of a safetensors file and encodes their numbers.
// For the writers of weights and adapters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/safetensors.h"
#include "runtime/parameters/tensor_names.h"
#include "runtime/parameters/tensors.h"
#include "sim/program/ir/number_format.h"

namespace foretrain {

// A tensor of a file with the tensors of the model that it holds.
struct GatheredTensor {
  struct Part {
    ParameterPlace place;
    FileTensor at;
  };
  NewTensor tensor;
  std::vector<Part> parts;
};

// dtype of safetensors and of config.json for fp32, bf16 and fp16. Errors: kInvalidArgument,
// another format.
struct DtypeNames {
  std::string safetensors, config;
};
Result<DtypeNames> DtypeNamesOf(NumberFormat format);

// Groups `parts` by the file's tensors, in the order of their first parts. `experts`: the model's
// number, for stacked tensors. Errors: kUnsupported, a part without a name in the file.
Result<std::vector<GatheredTensor>> GatherFileTensors(std::vector<GatheredTensor::Part> parts,
                                                      std::int64_t experts,
                                                      const std::string& dtype);

// Writes a safetensors file with `tensors`, synced. Errors: the source's and the file system's.
Result<void> WriteTensorFile(FileSystem& files, const std::string& path,
                             std::span<const GatheredTensor> tensors, const TensorSource& source);

// Writes a text of its own, synced. For files in a folder that is not visible yet.
Result<void> WriteNewFile(FileSystem& files, const std::string& path, std::string_view text);

}  // namespace foretrain

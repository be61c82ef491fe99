// Writes a model's weights as a folder of the Hugging Face library. weights.h reads one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/tensors.h"
#include "sim/config/model/model_spec.h"
#include "sim/program/ir/number_format.h"

namespace foretrain {

struct WeightWriterOptions {
  NumberFormat format = NumberFormat::kFp32;  // kFp32, kBf16 or kFp16
  // A file is closed before it would pass this; a larger tensor has a file of its own.
  std::int64_t max_file_bytes = 5'000'000'000;
  std::string model_type;  // family, as in config.json; empty: the first that can express the model
  // config.json of `model` to keep but for its dtype; empty: written from the model.
  std::string config;
  std::map<std::string, std::string> more;  // further files by name, such as the tokenizer's
};

struct WrittenWeights {
  std::string model_type;
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  // of tensors
  int files = 0;           // of tensors
};

// Writes config.json and the weights: model.safetensors, or model-00001-of-0000N.safetensors and
// their index. The folder appears complete or not at all (base/io/new_folder.h).
//
//   folder  a new or empty folder
//   source  gives every tensor of TensorsOf(model); adapters are not asked for
//
// Numbers are rounded to the nearest of the format. Holds one tensor of the file in memory.
//
// Errors: kUnsupported, a detail of the model that no family or the named one has;
// kInvalidArgument, the folder exists, a format of another kind, or a number beyond the format's
// largest; those of the source and of the file system.
Result<WrittenWeights> WriteWeights(FileSystem& files, const std::string& folder,
                                    const ModelSpec& model, const TensorSource& source,
                                    const WeightWriterOptions& options);

}  // namespace foretrain

// Adapters as files of the PEFT library: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/adapters.h"
#include "runtime/parameters/tensor_names.h"
#include "runtime/parameters/weight_writer.h"
#include "sim/program/ir/number_format.h"

namespace foretrain {

inline constexpr std::string_view kAdapterConfigName = "adapter_config.json";
inline constexpr std::string_view kAdapterWeightsName = "adapter_model.safetensors";

// Opens the adapters in `folder`.
//
//   names  of the base model's files
//
// Errors: kUnsupported, naming the field: no LoRA, or a variant with more than two factors a weight
// (DoRA, biases, other ranks' alpha, saved modules); kInvalidArgument, a tensor that belongs to no
// weight of the model, or has another shape; kCorruptInput: a file is damaged.
Result<AdapterOf> OpenAdapters(FileSystem& files, const std::string& folder, const ModelSpec& model,
                               const TensorNames& names);

struct AdapterWriterOptions {
  NumberFormat format = NumberFormat::kFp32;  // kFp32, kBf16 or kFp16
  std::string model_type{};  // family of the base; empty: the first that can express the model
  std::string base{};        // base_model_name_or_path; empty: null
};

// Writes the adapters of a model that was trained with `plan`, whose method is lora or qlora. The
// folder appears complete or not at all. A factor that several weights share here is written once
// for each of them, as PEFT expects.
//
//   source  gives the adapters by our names
//
// Errors: those of WriteWeights.
Result<WrittenWeights> WriteAdapters(FileSystem& files, const std::string& folder,
                                     const ModelSpec& model, const TensorSource& source,
                                     const Plan& plan, const AdapterWriterOptions& options);

}  // namespace foretrain

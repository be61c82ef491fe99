// Opens weights to start from, whatever they are stored as. Leaves out adapters: peft.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/tensor_names.h"
#include "runtime/parameters/tensors.h"
#include "sim/config/model/model_spec.h"
#include "sim/program/ir/number_format.h"

namespace foretrain {

// Weights by our names.
struct Weights {
  TensorSource source;  // safe from several threads
  // Format that holds every number of the files: fp32, or the 16-bit format that all tensors have.
  NumberFormat format = NumberFormat::kFp32;
  // Tensors of the files that are no part of the model, sorted. Masks and frequency tables that
  // some files hold are not among them.
  std::vector<std::string> unused;
  std::optional<TensorNames> names;  // of the files; none if they have our names
};

// Opens the weights of `model` at `path`: a safetensors file, a folder of the Hugging Face library
// or of torch.distributed.checkpoint (weight_files.h), or a checkpoint of ours or a folder of them.
// Names are ours, the library's or Megatron's (tensor_names.h). Adapters (`...lora_A.weight`,
// `...lora_B.weight`) missing from the file are initialized from `seed`, so that training can start
// from a base model's file. `files` must outlive the source.
//
// Only headers are read here. The source reads a tensor, or 64 MiB of a larger one, when it is
// asked for a part of it, and keeps the last four.
//
// Errors: those of WeightFiles::Open; kInvalidArgument, a tensor of the model is missing or has
// another shape (both are named); kUnsupported, a tensor in another format than fp32, bf16 or fp16.
Result<Weights> OpenWeights(FileSystem& files, const std::string& path, const ModelSpec& model,
                            std::uint64_t seed = 0);

}  // namespace foretrain

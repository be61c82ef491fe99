// Weights that an argument names, with the model that they are of.
#pragma once

#include <optional>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/parameters/weights.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

struct ModelOfWeights {
  ModelSpec model;
  std::string config;  // path of FROM's config.json; empty if the model is known from elsewhere
  std::optional<Checkpoint> checkpoint;  // if FROM is one, or a folder of them, and has named it
};

// The model of the weights at `from`: the one that `model` names (--model), else that of the
// checkpoint, else FROM's config.json.
//
// Errors: kInvalidArgument, `from` is a file, which names no model; those of ModelFlags::Resolve
// and of OpenNewest.
Result<ModelOfWeights> FindModelOfWeights(FileSystem& files, const std::string& from,
                                          const std::string& model);

// Opens weights and merges adapters into them.
struct MergedWeightsRequest {
  std::string from;
  bool averages = false;  // the moving averages of a checkpoint in place of its weights (--ema)
  std::string adapters;   // folder of PEFT adapters; empty: none
  std::string adapters_option;  // names `adapters` in errors
};

// Errors: those of OpenWeights, AveragesOf and OpenAdapters; kInvalidArgument, averages of what is
// no checkpoint, or adapters for weights without names of the Hugging Face library.
Result<Weights> OpenMergedWeights(FileSystem& files, const MergedWeightsRequest& request,
                                  const ModelSpec& model);

}  // namespace foretrain

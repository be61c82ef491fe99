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

// The weights at `from` with the PEFT adapters in `adapters` merged into them, if it is not empty.
// `option` names that argument in errors. Errors: those of OpenWeights and OpenAdapters;
// kInvalidArgument, weights without names of the Hugging Face library.
Result<Weights> OpenMergedWeights(FileSystem& files, const std::string& from,
                                  const ModelSpec& model, const std::string& adapters,
                                  const std::string& option);

}  // namespace foretrain

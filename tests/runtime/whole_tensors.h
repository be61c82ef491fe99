// Whole tensors of a model, made and read, for tests of weights in files. SourceOf
// (equality/training_by_hand.h) turns them into a source.
#pragma once

#include "runtime/parameters/tensors.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "tests/runtime/gather_tensors.h"

namespace foretrain {

// Every tensor with normal(0, 1) numbers, vectors too; with method lora also the adapters.
TensorMap RandomTensors(const ModelSpec& model, const Plan& plan = {});

// Reads every tensor of the model, row by row.
Result<TensorMap> ReadTensors(const ModelSpec& model, const TensorSource& source,
                              const Plan& plan = {});

}  // namespace foretrain

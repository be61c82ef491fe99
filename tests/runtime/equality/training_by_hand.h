// Training step by step on one rank: the sequential definition of plans whose gradients belong to
// older parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/parameters/tensors.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"

namespace foretrain {

// One step of `plan`, number `step`, at given parameters, which stay unchanged: loss and gradients.
// Fails the test on an error.
Trained OneStep(const ModelSpec& model, const Plan& plan, const TensorSource& weights, int step,
                BatchSource& data);

// Borrows the tensors.
TensorSource SourceOf(const TensorMap& tensors);

struct Moments {
  std::vector<float> first;
  std::vector<float> second;
};

// Update number `step`, counted from 1, of one whole tensor.
void UpdateByHand(OptimizerKind optimizer, const ParameterPlace& place, const Tensor& gradient,
                  std::int64_t step, float rate, Tensor& parameter, Moments& moments);

}  // namespace foretrain

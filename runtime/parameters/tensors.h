// Fills the pieces of parameters that ranks hold from a source of whole tensors. Files:
// safetensors.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "runtime/executor/executor.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Fills `out` with consecutive elements of one row of the whole tensor that contains `place`, from
// (row, col) on.
using TensorSource = std::function<Result<void>(const ParameterPlace& place, std::int64_t row,
                                                std::int64_t col, std::span<float> out)>;

// Initial weights, independent of the plan: GPT-2's normal(0, 0.02), 0.02 / sqrt(2 layers) for
// projections into the residual, 1 for norm weights, 0 for biases (Radford et al. 2019, s. 2.3).
// Adapters of rank r: A is normal(0, 1 / r), B is 0, so that they change nothing at first.
TensorSource InitialWeights(const ModelSpec& model, std::uint64_t seed);

// Weights for runs that only measure time: matrices repeat 2^16 numbers of normal(0, 0.02), vectors
// are those of InitialWeights. Independent of the plan.
TensorSource PatternWeights(const ModelSpec& model, std::uint64_t seed);

// Writes every rank's parameters, with masters and moving averages. Only between runs of the
// executor.
Result<void> FillParameters(Executor& executor, const TensorSource& source);

// The same for parameters that are trained.
Result<void> FillTrainedParameters(Executor& executor, const TensorSource& source);

}  // namespace foretrain

// Between whole tensors of the model and the pieces that ranks hold: filling parameters from a
// source and gathering parameters, gradients or moments. Leaves out files: safetensors.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/executor.h"
#include "sim/program/program.h"

namespace foretrain {

// Gives consecutive elements of one row of the whole tensor that `place` is part of, from
// (row, col) on.
using TensorSource = std::function<Result<void>(const ParameterPlace& place, std::int64_t row,
                                                std::int64_t col, std::span<float> out)>;

// Fresh weights, the same whatever the plan: GPT-2's normal(0, 0.02), 0.02 / sqrt(2 layers) for the
// projections into the residual, 1 for norm weights, 0 for biases. Radford et al. 2019, s. 2.3. Of
// adapters of rank r A has normal(0, 1 / r) and B 0, so that at first they change nothing.
TensorSource InitialWeights(const ModelSpec& model, std::uint64_t seed);

// Weights for runs whose time alone counts: matrices repeat 2^16 numbers of normal(0, 0.02),
// vectors are those of InitialWeights. The same whatever the plan.
TensorSource PatternWeights(const ModelSpec& model, std::uint64_t seed);

// Writes every rank's parameters. Between runs of the executor.
Result<void> FillParameters(Executor& executor, const TensorSource& source);

// Whole tensors by name; a vector has one row.
struct Tensor {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values;
};
using TensorMap = std::map<std::string, Tensor>;

enum class StateKind { kParameters, kGradients, kMoment1, kMoment2 };

// Puts the ranks' pieces together; moments in fp32, and none of SGD; of what is frozen parameters
// alone. Gradients are those of the
// last step run, reduced over replicas.
TensorMap GatherTensors(Executor& executor, StateKind kind);

}  // namespace foretrain

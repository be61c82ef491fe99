// Gathers the state that ranks hold into whole tensors of the model, for comparison.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"

namespace foretrain {

// A whole tensor; a vector has one row.
struct Tensor {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values;
};
using TensorMap = std::map<std::string, Tensor>;

enum class GatheredState { kParameters, kGradients, kMoment1, kMoment2, kAverage };

// Assembles the ranks' pieces into whole tensors. Moments are in fp32, and empty if the optimizer
// keeps none; Muon's matrices have no second ones. Averages are empty if the plan keeps none.
// Frozen parameters have no gradients, moments or averages. Gradients are those of the last step,
// reduced over replicas. Only between runs of an executor whose ranks all run here.
TensorMap GatherTensors(Executor& executor, GatheredState kind);

}  // namespace foretrain

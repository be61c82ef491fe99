// Degrees of parallelism from the process groups of a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/infer/traced_step.h"

namespace foretrain {

struct InferredDegree {
  std::optional<int> value{};
  std::string evidence{};
};

struct InferredDegrees {
  InferredDegree dp{}, tp{}, pp{}, cp{}, ep{};
  // Ranks of the pipelines, first stage first, as far as groups or transfers list them.
  std::vector<std::vector<int>> pipelines{};
};

InferredDegrees DegreesOf(const TracedStep& step);

}  // namespace foretrain

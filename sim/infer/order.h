// Micro-batches, pipeline schedule and recomputation from the order of forward and backward work.
#pragma once

#include <string>

#include "sim/infer/degrees.h"
#include "sim/infer/traced_step.h"

namespace foretrain {

struct InferredFact {
  std::string value{};  // empty: not told
  std::string evidence{};
};

struct InferredOrder {
  InferredFact micro_batches{}, schedule{}, vpp{};
};

InferredOrder OrderOf(const TracedStep& step, const InferredDegrees& degrees);

InferredFact RecomputationOf(const TracedStep& step);

}  // namespace foretrain

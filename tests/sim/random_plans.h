// Small random models and plans that are valid together, for property tests.
#pragma once

#include <cstdint>
#include <string>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct PlannedModel {
  ModelSpec model;
  Plan plan;
};

// The `index`-th of a fixed sequence: GPT-2 or Llama shapes of 1-5 layers, dp, cp, tp, pp up to
// 4, every schedule, ZeRO stage, recomputation and clipping.
PlannedModel RandomPlannedModel(std::uint64_t index);

// "layers 3 hidden 32 ... dp2 tp1 pp2 ...": for SCOPED_TRACE.
std::string Describe(const PlannedModel& planned);

}  // namespace foretrain

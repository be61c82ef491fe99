// What to change where no plan fits: the smallest changes that would do. Leaves out searching.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/cost_model.h"
#include "sim/search/space.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

// One change by which a plan of the space would fit.
struct Advice {
  std::string change;       // "--offload-optimizer host"
  std::string plan;         // the fastest that then fits
  double step_s = 0;        // of it, in closed form
  std::int64_t bytes = 0;   // that it needs on a device
};

// The changes of one kind each that make some plan fit, the cheapest in step time first where the
// work is the same: more recomputation, sharding, smaller micro-batches, state or activations off the
// device, adapters in place of all parameters, a shorter sequence, more devices. Of each kind the
// smallest that does.
//
//   space   of which nothing fits in `memory_bytes` on `ranks` devices
//   host_bytes  that one rank may have off its device; 0: unknown
std::vector<Advice> AdviseToFit(const ModelSpec& model, const CostModel& costs,
                                const SearchSpace& space, int ranks, std::int64_t memory_bytes,
                                std::int64_t host_bytes, int threads);

// The space of `plan` alone, on as many devices, for AdviseToFit.
SearchSpace SpaceOfPlan(const Plan& plan);

// " What would fit:" and a line each; where there is none, what to try.
std::string AdviceText(const std::vector<Advice>& advice);

}  // namespace foretrain

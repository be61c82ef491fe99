// Suggests changes if no plan of a space fits: the smallest changes that make one fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/cost/cost_model.h"
#include "sim/search/space/space.h"

namespace foretrain {

// A change that makes some plan of the space fit.
struct Advice {
  std::string change;      // "--offload-optimizer host"
  std::string plan;        // the fastest plan that then fits
  double step_s = 0;       // seconds of its step, in closed form
  std::int64_t bytes = 0;  // bytes that it needs on a device
};

// Suggestions of different kinds, at most one of each: the smallest that makes some plan fit. Kinds
// are more recomputation, more sharding, smaller micro-batches, offloaded state or activations,
// adapters instead of all parameters, a shorter sequence, more devices. Sorted by step time;
// changes of the work itself come last.
//
//   space        no plan of it fits in `memory_bytes` on `ranks` devices
//   host_bytes   capacity of one rank's share of host memory; 0 if unknown
//   threads      >= 1
std::vector<Advice> AdviseToFit(const ModelSpec& model, const CostModel& costs,
                                const SearchSpace& space, int ranks, std::int64_t memory_bytes,
                                std::int64_t host_bytes, int threads);

// A space that contains only the split of `plan`, on as many devices, for AdviseToFit.
SearchSpace SpaceOfPlan(const Plan& plan);

// " What would fit:" and one line per suggestion; general advice if there is none.
std::string AdviceText(const std::vector<Advice>& advice);

}  // namespace foretrain

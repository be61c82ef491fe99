// What can be trained on some devices: the longest sequence of a model, by a method, and what stands
// in the way of a longer one. In closed form.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/search/enumerate.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct FitOptions {
  TrainingMethod method = TrainingMethod::kFull;
  std::int64_t least_sequence = 512;
  std::int64_t memory_bytes = 0;  // of a device
  int threads = 1;
  std::function<bool()> cancelled;
};

struct LongestFit {
  std::optional<Candidate> best;  // the fastest plan of the longest sequence; none: nothing fits
  std::int64_t sequence = 0;      // of it
  double tokens_per_s = 0;
  std::string breaks;  // what a sequence twice as long would run into
};

// Doubles the sequence from the least one while some plan fits, up to what the model was made for.
// Where nothing fits with optimizer state and activations on the host, gradients and then
// parameters go there too.
// Plans are those with one pipeline schedule of the default space, a sample of each rank a
// step at least.
//
// Errors: kAborted; kInvalidArgument, as EnumeratePlans.
Result<LongestFit> FitOf(const ModelSpec& model, const CostModel& costs, const FitOptions& options);

}  // namespace foretrain

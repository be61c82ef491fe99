// Finds the longest sequence that a model can be trained with on some devices, and the limit that a
// longer one would hit. In closed form.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/search/space/enumerate.h"

namespace foretrain {

struct FitOptions {
  TrainingMethod method = TrainingMethod::kFull;
  std::int64_t min_sequence = 512;  // first sequence that is tried
  std::int64_t memory_bytes = 0;    // of a device
  int threads = 1;
  std::function<bool()> cancelled;
};

struct LongestFit {
  std::optional<Candidate> best;  // fastest plan of the longest sequence; `nullopt` if nothing fits
  std::int64_t sequence = 0;      // tokens of that sequence; 0 if nothing fits
  double tokens_per_s = 0;
  std::string breaks;  // the limit that twice the sequence would hit
};

// Doubles the sequence from options.min_sequence on while some plan fits, up to the model's
// maximum. If nothing fits with optimizer state and activations on the host, gradients and then
// parameters are offloaded too. Plans come from a reduced default space (1F1B, ring context
// parallelism); the batch is DefaultBatch.
//
// Errors: kAborted; kInvalidArgument, as EnumeratePlans.
Result<LongestFit> FitOf(const ModelSpec& model, const CostModel& costs, const FitOptions& options);

}  // namespace foretrain

// Searches for the best plan: enumerates a space, drops plans that are invalid or do not fit, ranks
// the rest in closed form and simulates the best. Costs come from sim/cost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/memory/device_use.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/search/space/space.h"
#include "sim/simulate/simulate.h"

namespace foretrain {

struct SearchOptions {
  int ranks = 1;                  // ranks that each plan uses
  std::int64_t memory_bytes = 0;  // of a device; 0: that of the cluster's devices
  int simulated = 8;              // plans of a round of simulations, best first in closed form
  int threads = 1;                // >= 1; the result does not depend on the number
  bool advises = true;            // if nothing fits, search for the smallest changes that help
  // Polled on the calling thread; if it returns true, the search ends with kAborted.
  std::function<bool()> cancelled;
  // Called on the calling thread with the share of the work done, 0 to 1, and the number of plans
  // compared.
  std::function<void(double share, std::int64_t evaluated)> progress;
};

// A simulated plan that fits. [low_s, high_s] contains 90 % of its measurements
// (sim/forecast/forecast.h).
struct RankedPlan {
  Plan plan;
  FullestRank memory;           // peak of the tensors on the fullest rank
  DeviceUse device;             // all memory of the fullest device
  std::int64_t host_bytes = 0;  // of one rank, in its host's memory
  Evaluation estimate;          // closed form
  double step_s = 0;            // simulated step time
  double low_s = 0;
  double high_s = 0;
  double relative_error = 0;    // of step_s, one standard deviation
  double first_is_faster = 1;   // probability that the fastest plan is (advice/pairs.h); 1: itself
  bool tied = false;            // first_is_faster is below kToldApart, for any plan if the fastest
  bool pareto = false;          // no simulated plan is both as fast and as small
  std::string depends_most_on;  // for tied plans: part it depends most on (advice/dependencies.h);
                                // may be empty
};

struct SearchResult {
  std::int64_t evaluated = 0;     // compared in closed form; with `pruned` the size of the space
  std::int64_t pruned = 0;        // dropped earlier: invalid, same as others, too large or too slow
  std::vector<RankedPlan> plans;  // simulated ones, fastest first
  // Reasons: those of `pruned` first, then those of simulated plans that deadlock.
  std::vector<Rejection> rejected;
  // No plan of the space that fits takes less than `bound_s` in the cost model: compute, and
  // filling the pipeline. `gap` is the share of the best plan's step above that bound.
  double bound_s = 0;
  double gap = 0;
};

// Returns the best plans of `space` for `model` on the machine of `costs`, fastest first.
//
// Every valid plan is compared in closed form (evaluator.h), unless a lower bound rules it out. The
// best options.simulated plans are simulated. Further rounds follow while the closed form puts a
// plan within kSimulatedMargin of the best simulated one. Rounds end at kMaxSimulated plans, or
// earlier for long pipelines. The candidates include variants with layers balanced by time, some
// plans of the front of time and memory, and the two fastest with tuned gathers.
//
// Errors: kInvalidArgument for an invalid model. kInfeasible if no plan makes up the ranks or is
// valid; the message names the first broken rule. kInfeasible if nothing fits; it names the
// smallest plan's need and the smallest changes that help (advice.h). kInfeasible if all simulated
// plans deadlock. kAborted if cancelled; kResourceExhausted if memory runs out. O(plans)
// evaluations and up to about kMaxSimulated simulations. Deterministic.
Result<SearchResult> SearchPlans(const ModelSpec& model, const CostModel& costs,
                                 const SearchSpace& space, const SearchOptions& options);

inline constexpr double kSimulatedMargin = 0.05;
inline constexpr int kMaxSimulated = 32;

}  // namespace foretrain

// Chooses a plan: enumerates what a space allows, drops what cannot be or cannot fit, ranks the
// rest in closed form and simulates the best. Leaves out where costs come from (sim/cost).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/memory/device_use.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/program.h"
#include "sim/search/evaluator.h"
#include "sim/search/space.h"
#include "sim/simulate/simulate.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct SearchOptions {
  int ranks = 1;                  // that each plan uses, all of them
  std::int64_t memory_bytes = 0;  // of a device; 0: the cluster's
  int simulated = 8;              // plans that are simulated at least, best first by closed form
  int threads = 1;                // >= 1; the result does not depend on it
  // Asked by one thread, often; true ends the search with kAborted.
  std::function<bool()> cancelled;
  // By one thread: what share of the work is done, 0 to 1, and the plans compared so far.
  std::function<void(double share, std::int64_t evaluated)> progress;
};

// One plan that fits. `low` and `high`: step_s times 1 -+ the relative error of its costs.
struct RankedPlan {
  Plan plan;
  FullestRank memory;           // tensors of the program
  DeviceUse device;             // all of the fullest device
  std::int64_t host_bytes = 0;  // of a rank, of its host's memory
  Evaluation estimate;          // closed form
  double step_s = 0;            // simulated
  double low_s = 0;
  double high_s = 0;
  bool tied = false;    // with the best: its interval reaches the best plan's step_s
  bool pareto = false;  // no simulated plan is both faster and smaller
  std::string bet;      // of the best and those tied with it: what it would be wrong about
};

struct SearchResult {
  std::int64_t evaluated = 0;     // ranked in closed form; with `pruned` the size of the space
  std::int64_t pruned = 0;        // dropped before: invalid, the same as others, too large
  std::vector<RankedPlan> plans;  // simulated ones, fastest first
  // By reason, `pruned` in all, and behind them those of the simulated that deadlock.
  std::vector<Rejection> rejected;
  // No plan of the space that fits takes less than this, in the cost model: computing alone, and
  // filling the pipeline. `gap`: the share of the best plan's step that lies above it.
  double bound_s = 0;
  double gap = 0;
};

// The plans of `space` for `model` on the model's cluster, fastest first.
//
// Every plan that passes the rules is evaluated in closed form (evaluator.h). The best of them by
// that are simulated: `simulated` of them and all others that the closed form puts within
// kSimulatedMargin of the best simulated one, up to kMostSimulated; beside each its variants
// with layers dealt by time and gathers tuned.
//
// Errors: kInvalidArgument, an invalid model; kInfeasible, no plan makes the ranks or keeps the
// rules, by the first rule that is broken, or nothing fits: names what the smallest plan needs and
// has, and the smallest changes that would do (advice.h); kAborted. O(plans) evaluations and
// `simulated` simulations; same input, same output.
Result<SearchResult> SearchPlans(const ModelSpec& model, const CostModel& costs,
                                 const SearchSpace& space, const SearchOptions& options);

inline constexpr double kSimulatedMargin = 0.05;
inline constexpr int kMostSimulated = 32;

// One plan compiled, costed and simulated: what `predict` shows and what a run is held against.
struct Forecast {
  Program program;
  ProgramCosts costs;
  Simulation simulation;
  std::vector<PeakMemory> memory;  // of each rank of the program, its tensors
  double relative_error = 0;       // of step_s: mean of the ops' errors, weighted by their time
};

// Forecasts `plan` by these of its ranks; attribution needs all. With options.threads > 1 the
// program is verified while it is simulated.
// Errors: those of Compile, CostsOf and Simulate.
Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              RankChoice ranks, bool timeline);
Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              RankChoice ranks, const SimulateOptions& options);
// The same of a program that is compiled already.
Result<Forecast> ForecastOf(Program program, const CostModel& costs,
                            const SimulateOptions& options);

}  // namespace foretrain

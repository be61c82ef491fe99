// Chooses a plan: enumerates what a space allows, drops what cannot be or cannot fit, ranks the
// rest in closed form and simulates the best. Leaves out where costs come from (sim/cost).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/program.h"
#include "sim/simulate/simulate.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/plan_fields.h"

namespace foretrain {

// Values that one field of a plan may take.
struct SearchChoice {
  const PlanField* field = nullptr;  // not kNumber or kIntegers
  std::vector<std::int64_t> values;
};

// `base` with every combination of the choices' values laid over it; every plan trains the same
// batch of the same samples.
struct SearchSpace {
  Plan base;
  std::vector<SearchChoice> choices;
  std::function<void(Plan&)> complete = {};  // sets what follows from the choices; may be empty

  // Replaces the field's values.
  void Choose(std::string_view field, std::vector<std::int64_t> values);
};

struct SearchOptions {
  int ranks = 1;                    // that each plan uses, all of them
  std::int64_t memory_bytes = 0;    // of a device; 0: the cluster's
  int simulated = 8;                // best plans by closed form that are simulated, >= 1
  std::function<bool()> cancelled;  // asked between plans; true ends the search with kAborted
  std::function<void(int done, int of)> progress;  // simulated plans
};

// One plan that fits. `low` and `high`: step_s times 1 -+ the relative error of its costs.
struct RankedPlan {
  Plan plan;
  FullestRank memory;
  double estimate_s = 0;  // closed form
  double step_s = 0;      // simulated
  double low_s = 0;
  double high_s = 0;
  bool tied = false;    // with the best: its interval reaches the best plan's step_s
  bool pareto = false;  // no simulated plan is both faster and smaller
};

// Plans that were not ranked, by reason, with the first of each.
struct Rejection {
  std::string reason;  // "needs more memory than the device has"
  int count = 0;
  std::string example;  // the message of the first
};

struct SearchResult {
  int evaluated = 0;              // ranked in closed form
  int pruned = 0;                 // dropped before: invalid or too large
  std::vector<RankedPlan> plans;  // simulated ones, fastest first
  std::vector<Rejection> rejected;
};

// The plans of `space` for `model` on the model's cluster, fastest first.
//
// Errors: kInvalidArgument, an empty space or a batch that no plan divides; kInfeasible, nothing
// fits: names what the smallest plan needs and has; kAborted. O(plans) closed forms and `simulated`
// simulations; same input, same output.
Result<SearchResult> SearchPlans(const ModelSpec& model, const CostModel& costs,
                                 const SearchSpace& space, const SearchOptions& options);

// One plan compiled, costed and simulated: what `predict` shows and what a run is held against.
struct Forecast {
  Program program;
  ProgramCosts costs;
  Simulation simulation;
  std::vector<PeakMemory> memory;  // of each rank of the program
  double relative_error = 0;       // of step_s: mean of the ops' errors, weighted by their time
};

// Forecasts `plan` by these of its ranks; attribution needs all.
// Errors: those of Compile, CostsOf and Simulate.
Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              RankChoice ranks, bool timeline);

}  // namespace foretrain

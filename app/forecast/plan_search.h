// The options of a search for plans, and the search. Leaves out showing it: app/report/plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/flags/dialect_flags.h"
#include "app/cli/flags/memory_margin.h"
#include "app/cli/flags/plan_flags.h"
#include "app/forecast/forecasting.h"
#include "sim/search/search.h"
#include "sim/search/space/space.h"

namespace foretrain {

// What is searched.
struct PlanQuestion {
  std::optional<Preset> preset;
  ForecastContext context;
  SearchSpace space = {};
  std::string framework = {};     // title of the trainer that plans are for
  bool offloads_more = false;     // that trainer keeps gradients and parameters on the host
  std::int64_t memory_bytes = 0;  // of a device that a plan may use
  std::string defaults = {};      // DefaultsText; empty: everything was given
};

class PlanSearch {
 public:
  // Options of model, machine, plan and launch files, --for and --memory-margin. `writes`: also
  // --emit.
  void Declare(Arguments& arguments, bool writes);

  // Errors: kInvalidArgument, naming the option; those of a launch file.
  Result<PlanQuestion> Ask();

  // The plans of the question. If nothing fits, gradients and then parameters move to the host too,
  // as `fit` does, unless the user, a preset or a plan file says what is offloaded. The question's
  // space is then that of the plans found. Sets ranks and memory of `options`.
  // Errors: those of SearchPlans.
  Result<SearchResult> Search(SearchOptions options, PlanQuestion& question) const;

  const ModelFlags& model() const { return model_; }
  const ClusterFlags& cluster() const { return cluster_; }
  const DialectFlags& dialect() const { return dialect_; }

 private:
  Result<void> Restrict(PlanQuestion& question) const;

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  DialectFlags dialect_;
  MemoryMargin margin_;
};

}  // namespace foretrain

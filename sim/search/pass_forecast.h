// One plan's step in milliseconds, without a compiled program: when each pass of each chunk runs,
// what follows the last, what the fullest rank holds when. For whoever turns a knob and waits.
// Leaves out ops that data parallelism and offload add within a pass, which the closed form adds to
// its length, and all else that SimulatePasses leaves out.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/memory/device_use.h"
#include "sim/memory/memory_walk.h"
#include "sim/search/evaluator.h"
#include "sim/search/forecast_interval.h"
#include "sim/simulate/pass_simulation.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Of one pipeline rank, behind its last pass.
struct RankEnd {
  double sums_s = 0;    // gradients over data parallelism, as far as nothing hides them
  double update_s = 0;  // norm, optimizer, gathers of what was updated
};

struct PassForecast {
  Plan plan;
  double step_s = 0;
  double relative_error = 0;  // of step_s: mean of the ops' errors by their time
  double bubble = 0;          // PipelineBubble::bubble of the passes
  Evaluation estimate;        // closed form: parts of the step and of memory
  // Empty where steps overlap, which no play of one step shows: step_s is then the estimate's.
  PassSimulation passes;
  std::vector<RankEnd> ends;  // [pp]; empty likewise
  PeakMemory tensors;         // of the fullest rank, estimate.fullest_pp
  DeviceUse device;           // of that rank

  bool HasPasses() const { return !passes.chunks.empty(); }
  ForecastInterval Interval() const { return ForecastIntervalOf(step_s, relative_error); }
};

// Forecasts plans of one model on one machine, one after another: blocks, pipelines and ways of
// sharing state that an earlier plan had are not worked out again. Not safe from several threads.
class PassForecaster {
 public:
  // Borrows both.
  PassForecaster(const ModelSpec& model, const CostModel& costs);

  // step_s is the latest end of any rank's passes with its sums and update. A pass takes what its
  // ops take, or what the closed form says where that is more.
  // Errors: those of ValidatePlan. What it has seen before takes O(slots).
  Result<PassForecast> Forecast(const Plan& plan);

 private:
  const ModelSpec& model_;
  const CostModel& costs_;
  Evaluator evaluator_;
};

}  // namespace foretrain

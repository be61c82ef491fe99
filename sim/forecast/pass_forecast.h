// Forecasts one plan's step in milliseconds, without compiling a program, for interactive use: when
// each pass of each chunk runs, what follows the last pass, and the memory of the fullest rank over
// time. Ops that data parallelism and offload add within a pass enter through the closed form, as a
// longer pass. Leaves out everything else that SimulatePasses leaves out.
#pragma once

#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/device_use.h"
#include "sim/memory/peak_memory.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/simulate/pass_simulation.h"

namespace foretrain {

// Work of one pipeline rank after its last pass.
struct RankEnd {
  double sums_s = 0;    // gradient reduction over data parallelism that no pass hides
  double update_s = 0;  // norm, optimizer and gathers of the updated parameters
};

struct PassForecast {
  Plan plan;
  double step_s = 0;
  double relative_error = 0;  // of step_s: mean of the ops' errors, weighted by their time
  double bubble = 0;          // PipelineBubble::bubble of the passes
  Evaluation estimate;        // closed form: parts of the step and of memory
  // Empty if steps overlap, which a single step cannot show; step_s is then the estimate's.
  PassSimulation passes;
  std::vector<RankEnd> ends;  // by pp; empty if `passes` is
  PeakMemory tensors;         // of the fullest rank, estimate.fullest_pp
  DeviceUse device;           // of that rank

  bool HasPasses() const { return !passes.chunks.empty(); }
  ForecastInterval Interval() const { return ForecastIntervalOf(step_s, relative_error); }
};

// Forecasts plans of one model on one machine, one after another. Blocks, pipelines and state
// tables of earlier plans are reused. Not safe from several threads.
class PassForecaster {
 public:
  // Borrows both; they must outlive this object.
  PassForecaster(const ModelSpec& model, const CostModel& costs);

  // step_s is the latest end of any rank's passes plus its reduction and update. A pass takes as
  // long as its ops, or as the closed form says if that is longer. Errors: those of ValidatePlan.
  // If all parts are known from earlier plans, O(slots).
  Result<PassForecast> Forecast(const Plan& plan);

 private:
  const ModelSpec& model_;
  const CostModel& costs_;
  Evaluator evaluator_;
};

}  // namespace foretrain

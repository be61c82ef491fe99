// Times one forecast, from a plan's options to the timeline of every rank class. Leaves out its
// accuracy (app/bench/forecast_bench.h) and printing.
#pragma once

#include <cstdint>

#include "app/forecast/forecasting.h"

namespace foretrain {

// The times of one forecast; `*_s`: wall time.
struct SimulateTimes {
  int ranks = 0;          // classes: ranks that are simulated
  std::int64_t ops = 0;   // of one step, over those
  int steps = 0;          // simulated, until they repeat
  double compile_s = 0;   // plan -> linked, verified program
  double costs_s = 0;     // seconds of its ops
  double simulate_s = 0;  // with the timeline of the step that is reported
  double metrics_s = 0;   // metrics of the last step
  double whole_s = 0;     // all of these as `predict` runs them, on all cores
  double cpu_s = 0;       // the same in CPU time of the process
};

// The shortest of `runs` forecasts, with its parts run one after the other. Errors: those of
// MakeForecast.
Result<SimulateTimes> MeasureSimulation(const ForecastContext& context, const Plan& plan, int runs);

// One step of a compiled program of the first rank of each stage, as a search has it, without a
// timeline.
struct StepTimes {
  int ranks = 0;
  std::int64_t instructions = 0;  // of all ranks
  std::int64_t ops = 0;
  double step_s = 0;     // simulated
  double compile_s = 0;  // wall time: plan -> linked program
  double graph_s = 0;    // costs and the engine's graph
  double events_s = 0;   // the engine alone, best of the runs
  double cpu_s = 0;      // of that run
};

// Errors: those of Compile, CostsOf and Simulate; kInfeasible, a deadlock.
Result<StepTimes> MeasureStep(const ForecastContext& context, const Plan& plan, int runs);

// One pipeline simulated by passes of chunks, without a compiled program.
struct PassTimes {
  std::int64_t slots = 0;  // events: passes of chunks, of all ranks
  double end_s = 0;        // simulated: from the first forward to the last backward
  double whole_s = 0;      // wall time
  double cpu_s = 0;
};

// Errors: those of SimulatePasses.
Result<PassTimes> MeasurePasses(const ForecastContext& context, const Plan& plan, int runs);

}  // namespace foretrain

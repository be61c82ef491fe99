// Forecasts one plan: compiles it, prices its ops and simulates its step.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "sim/simulate/simulate.h"

namespace foretrain {

// Range that holds 90 % of the measurements of a forecast step.
struct ForecastInterval {
  double low_s = 0;
  double high_s = 0;

  bool Holds(double seconds) const { return low_s <= seconds && seconds <= high_s; }
};

// 90 % of a normal distribution lie within this many standard deviations of its mean.
inline constexpr double kIntervalDeviations = 1.645;

//   step_s  forecast time of a step
//   error   one standard deviation of ln(measured / forecast)
inline ForecastInterval ForecastIntervalOf(double step_s, double error) {
  const double factor = std::exp(kIntervalDeviations * error);
  return {step_s / factor, step_s * factor};
}

struct Forecast {
  Program program;
  ProgramCosts costs;
  Simulation simulation;
  std::vector<PeakMemory> memory;  // of the tensors of each rank of the program
  double relative_error = 0;       // of step_s: mean of the ops' errors, weighted by their time
  bool fits = true;  // false: ForecastOptions::fits refused a rank, and nothing was simulated

  ForecastInterval Interval() const {
    return ForecastIntervalOf(simulation.step_s, relative_error);
  }
};

enum class ForecastPart : std::uint8_t { kCompile, kSimulate };

struct ForecastOptions {
  RankChoice ranks = RankChoice::kAll;  // attribution needs all
  // timeline, threads, cancelled and the like. With several threads the program is verified while
  // it is simulated.
  SimulateOptions simulate = {};
  // Keeps each rank's steps and arena sizes but not its tensors, and no costs by op: a tenth of the
  // memory, for a search that shows no program. The figures are the same. Without Verify.
  bool outline = false;
  // With `outline` and RankChoice::kFirst: asked about each rank before the next one is compiled.
  std::function<bool(const RankProgram&, const PeakMemory&)> fits = {};
  // Called on the calling thread when a part begins; may be empty. Not called for an outline.
  std::function<void(ForecastPart)> progress = {};
};

// Errors: those of Compile, CostsOf and Simulate; kAborted, simulate.cancelled said true.
Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              const ForecastOptions& options = {});

}  // namespace foretrain

// Measures the error of forecasts on this machine: each of several plans is forecast and trained
// twice.
// Leaves out printing on a terminal: app/commands/bench.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

struct BenchPlan {
  std::string name;
  Plan plan;
};

// The ten plans of `bench --forecast`: one and two ranks; data, tensor and pipeline parallel, ZeRO,
// recomputation. All train the same batch of the same model.
std::vector<BenchPlan> BenchPlans();
inline constexpr const char* kBenchModel = "gpt-10m";

// Seconds of all ops of a class in a step, over all ranks; waiting for peers is left out.
struct ClassError {
  OpClass op_class = OpClass::kGemm;
  double predicted_s = 0;
  double measured_s = 0;
};

struct BenchResult {
  BenchPlan plan;
  double predicted_s = 0;     // a step
  double measured_s[2] = {};  // medians of the steps of the two runs
  double drift[3] = {};       // before, between and after
  std::vector<ClassError> classes;

  double Measured() const { return (measured_s[0] + measured_s[1]) / 2; }
  double Drift() const { return (drift[0] + 2 * drift[1] + drift[2]) / 4; }
  // Relative error; above 0 if the forecast is too long.
  double Error() const { return predicted_s / Measured() - 1; }
  // The same with the measurement divided by the drift.
  double CorrectedError() const { return predicted_s * Drift() / Measured() - 1; }
  // Difference of the two runs over their mean.
  double Spread() const;
};

struct BenchOptions {
  int steps = 20;  // steps that count; kBenchWarmUp more run before them
  std::function<bool()> stop;
};
inline constexpr int kBenchWarmUp = 2;

// Forecasts the plan from the profile and trains it twice on random tokens, with the reference GEMM
// timed before, between and after. Errors: those of MakeForecast and Train.
Result<BenchResult> RunBenchPlan(const ModelSpec& model, const BenchPlan& plan,
                                 const DeviceProfile& profile, const BenchOptions& options);

// Median over plans of |error|, or of |corrected error| if `corrected`. `results` must not be
// empty.
double MedianError(const std::vector<BenchResult>& results, bool corrected);

// The results as a table for docs/validation.md, with the machine, the date and how to repeat it.
std::string BenchMarkdown(const std::vector<BenchResult>& results, const DeviceProfile& profile,
                          int steps);

}  // namespace foretrain

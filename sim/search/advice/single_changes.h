// Forecasts the effect of changing one option of a plan, by simulation, to suggest what to try
// next. Leaves out changes of two options (search.h) and plans that do not fit (advice.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/forecast/forecast.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

// A plan that differs from another in one option and in the fields that must follow it.
struct SingleChange {
  std::string options;  // "--dp 4 --pp 1": the options that differ
  Plan plan;
  bool other_numbers = false;  // it computes in a shorter number format
};

// The single changes of `plan` that keep ranks, sequence, batch, optimizer and trained parameters.
// They are every other value of each choice of DefaultSpace, and one degree doubled with another
// halved. Then other bucket sizes, and each offloaded part back on the device. On accelerators also
// fused kernels, flash attention and the format of DefaultPrecision. All pass ValidatePlan.
// O(choices) checks.
std::vector<SingleChange> SingleChangesOf(const ModelSpec& model, const ClusterSpec& cluster,
                                          const Plan& plan);

struct PlanForecast {
  double step_s = 0;
  ForecastInterval interval;      // of step_s, as if its error were independent of other plans'
  ClassSeconds classes;           // of the steady step, mean over the simulated ranks
  std::int64_t device_bytes = 0;  // needed by the fullest device
  std::int64_t host_bytes = 0;    // of the fullest node's host
};
// Simulates one plan. On a CPU all ranks count, since they share its cores; elsewhere one rank of
// each class. Errors: those of MakeForecast.
Result<PlanForecast> ForecastPlan(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                                  int threads);

struct TriedChange {
  SingleChange of;
  PlanForecast forecast;
};
struct TriedChanges {
  PlanForecast as_is;
  int compared = 0;  // changes compared in closed form
  int simulated = 0;
  std::vector<TriedChange> faster;  // fit and gain kWorthTrying, fastest first
};
// Minimum relative gain of a change that is worth reporting.
inline constexpr double kWorthTrying = 0.01;

// Compares all single changes in closed form, and simulates the fastest of those that are at most
// kSimulatedMargin slower than `plan`: at most 12, fewer for long pipelines.
//
//   threads  >= 1; the result does not depend on it
//
// Errors: those of MakeForecast on `plan` itself. Deterministic.
Result<TriedChanges> TrySingleChanges(const ModelSpec& model, const CostModel& costs,
                                      const Plan& plan, int threads);

}  // namespace foretrain

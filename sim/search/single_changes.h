// What one option turned otherwise would make of a plan, forecast by simulation: what to try next.
// Leaves out changes of two things at once (search.h) and of plans that do not fit (advice.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/search/forecast_interval.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

// A plan that differs from another in one thing, and in what follows from that.
struct SingleChange {
  std::string options;  // "--dp 4 --pp 1": what is given otherwise
  Plan plan;
  bool other_numbers = false;  // computes in a shorter format
};

// The single changes of `plan` that keep ranks, sequence, batch, optimizer and what is trained:
// every other value of each choice of DefaultSpace; half or twice a degree at the cost of another;
// buckets of other sizes; everything back on the device; on accelerators fused kernels and the
// format that DefaultPrecision names. All pass ValidatePlan. O(choices) checks.
std::vector<SingleChange> SingleChangesOf(const ModelSpec& model, const ClusterSpec& cluster,
                                          const Plan& plan);

struct PlanForecast {
  double step_s = 0;
  ForecastInterval interval;      // of step_s, as if its error had nothing to do with another's
  ClassSeconds classes;           // of the steady step, means over the ranks that were simulated
  std::int64_t device_bytes = 0;  // that the fullest device needs
};
struct TriedChange {
  SingleChange of;
  PlanForecast forecast;
};
struct TriedChanges {
  PlanForecast as_is;
  int compared = 0;  // in closed form
  int simulated = 0;
  std::vector<TriedChange> faster;  // that fit, fastest first; by at least kWorthTrying
};
// Share of a step below which a change is not worth a mention.
inline constexpr double kWorthTrying = 0.01;

// Compares all single changes in closed form, and simulates those that come first and are not
// beyond kSimulatedMargin slower than `plan`: at most 12, fewer of long pipelines.
//
//   threads  >= 1; the result does not depend on it
//
// Errors: those of MakeForecast on `plan` itself. Same input, same output.
Result<TriedChanges> TrySingleChanges(const ModelSpec& model, const CostModel& costs,
                                      const Plan& plan, int threads);

}  // namespace foretrain

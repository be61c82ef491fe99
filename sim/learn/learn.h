// Learns the constants of a device profile from measured steps, any number from one on. Single ops
// that `calibrate` timed are better evidence where there are any.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/profile/device_profile.h"
#include "sim/learn/learned_constants.h"

namespace foretrain {

// A measured step, and what its forecast needs. `profile` is the one to improve.
struct MeasuredStep {
  ModelSpec model;
  ClusterSpec cluster;
  DeviceProfile profile;
  Plan plan;          // valid for the model
  double step_s = 0;  // > 0
};

struct Learned {
  ConstantMoves by{};              // the most probable moves
  std::vector<double> covariance;  // of the constants after learning, row by row
  int runs = 0;                    // learned from, earlier ones included
  double plan_error = kPlanError;  // of one plan alone, one standard deviation
  // Error of a further plan like those measured: plan_error, and what is left of the constants'.
  double error = 0;
  // Root mean square of ln(forecast / measured) of the steps, before and after.
  double error_before = 0, error_after = 0;
};

// The posterior of the constants, after `steps` were measured.
//
// Prior: CovarianceOf the first step's profile, around no move. Likelihood: ln(forecast / measured)
// is normal with kPlanError. A residual r has weight 1 / (1 + (r / 0.3)^2) against outliers. The
// mode comes from Gauss-Newton with numerical derivatives and damped steps (Levenberg, Marquardt),
// within the limits of each constant. The covariance is that of the normal distribution around the
// mode (Laplace). plan_error is kPlanError for few steps, the spread of the residuals for many:
// kPlanError counts as kPlanErrorSteps residuals.
//
//   threads    >= 1
//   cancelled  called now and then; empty: never
//
// Errors: kInvalidArgument without steps; kAborted: `cancelled` returned true. O(20 * 13 forecasts
// per step).
Result<Learned> LearnFrom(std::span<const MeasuredStep> steps, int threads,
                          const std::function<bool()>& cancelled = {});
inline constexpr double kPlanErrorSteps = 4;

// Moves the constants of `profile`. The profile takes over covariance, errors and number of runs.
//   preset  system that ran them; empty: foretrain's own
void ApplyLearned(const Learned& learned, std::string_view preset, DeviceProfile& profile);

// Moves the constants of another cluster's profile as `from` learned, which has the same device and
// system. Precondition: from.learned.
void TakeLearned(const DeviceProfile& from, DeviceProfile& profile);

}  // namespace foretrain

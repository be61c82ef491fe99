// Fits the constants of a device profile to measured runs: reads rows of a table, returns a
// profile. Measurements of single ops (`calibrate`) are better evidence where there are any.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "sim/cost/profile/device_profile.h"
#include "sim/validate/run_case.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// A fitted constant. It is moved by its logarithm, or in its own unit for member_skew_s.
struct FitConstant {
  std::string_view name;
  double known_to = 0;  // standard deviation of the prior
  // Limits of the move. Rates stay below published values of links, network and memory. Times stay
  // within a fifth and five times their value. Shares of a peak end at 1.
  double min = 0, max = 0;
  void (*move)(DeviceProfile& profile, double by) = nullptr;
};
inline constexpr std::size_t kFitConstants = 11;
// In the order of ProfileFit::by. Efficiencies of products, memory, scores and attention; times of
// a tile, a kernel and the host; rate and latency of links and network; skew of members.
const std::array<FitConstant, kFitConstants>& FitConstants();

struct ProfileFit {
  std::array<double, kFitConstants> by{};  // move of each constant, as FitConstant::move takes it
  int rows = 0;
  // Root mean square of ln(forecast / measured) over the rows. error_after counts n - 12 rows,
  // because 12 constants were fitted.
  double error_before = 0, error_after = 0;
};

// Fits the constants so that forecasts of `runs` come closest to the measurements.
//
// Least squares of ln(forecast / measured) / 0.1, with weights 1 / (1 + (r / 0.3)^2) against
// outliers. The move of each constant divided by known_to is added as a residual, so that few rows
// move little. The method is Gauss-Newton with numerical derivatives and damped steps (Levenberg,
// Marquardt). Moves end at the limits of each constant.
//
//   runs       rows with a measured step and exactly one plan are used; others are skipped
//   threads    >= 1
//   cancelled  called now and then; empty: never
//
// Errors: kInvalidArgument: fewer than 12 usable rows; kAborted: `cancelled` returned true. O(20 *
// 12 forecasts per row).
Result<ProfileFit> FitProfile(std::span<const PublishedRun> runs, const CaseSources& sources,
                              int threads, const std::function<bool()>& cancelled = {});

// Moves the constants of `profile` and marks them as interpolated. The profile takes over the error
// of the fit.
void ApplyFit(const ProfileFit& fit, DeviceProfile& profile);

}  // namespace foretrain

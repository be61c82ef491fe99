// Learns the constants of a device profile from measured runs: rows of a table in, a profile out.
// Leaves out points of single ops (`calibrate`), which say more where there are any.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "sim/cost/device_profile.h"
#include "sim/validate/run_case.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// A constant that is fitted, by its logarithm or in units of its own.
struct FitConstant {
  std::string_view name;
  double known_to = 0;  // one standard deviation beforehand
  // How far it may be moved. Rates stay below what is published of links, network and memory, times
  // between a fifth and five times what they were; shares of a peak end at 1 wherever they begin.
  double least = 0, most = 0;
  void (*move)(DeviceProfile& profile, double by) = nullptr;
};
inline constexpr std::size_t kFitConstants = 12;
// By name: efficiencies of products, memory, scores and attention; times of a tile, a kernel, the
// host; rate and latency of links and network; skew of members.
const std::array<FitConstant, kFitConstants>& FitConstants();

struct ProfileFit {
  std::array<double, kFitConstants> by{};  // that each constant is moved
  int rows = 0;
  // Root of the mean square of ln(forecast / measured) over the rows; `after` as of n - 12 of them.
  double error_before = 0, error_after = 0;
};

// The constants with which forecasts of `runs` come nearest to what was measured.
//
// Least squares of ln(forecast / measured) / 0.1 with weights 1 / (1 + (r / 0.3)^2), so that single
// rows do not bend the rest, and of each constant's move over what it is known to: few rows move
// little. Gauss-Newton with numerical derivatives, steps damped until they help (Levenberg,
// Marquardt) and ended where a constant may be moved no further.
//
//   runs     rows with a measured step and a plan that leaves nothing open; others are left out
//   threads  >= 1
//   cancelled  asked now and then; may be empty
//
// Errors: kInvalidArgument, fewer than 12 such rows; kAborted. O(20 * 12 forecasts a row).
Result<ProfileFit> FitProfile(std::span<const PublishedRun> runs, const CaseSources& sources,
                              int threads, const std::function<bool()>& cancelled = {});

// Moves the constants of `profile`, marks those as interpolated, and takes the fit's error for its
// own.
void ApplyFit(const ProfileFit& fit, DeviceProfile& profile);

}  // namespace foretrain

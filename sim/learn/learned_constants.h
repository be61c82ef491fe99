// The constants of a device profile that measured runs move, each with a Gaussian prior.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// A constant is moved by its logarithm, or in its own unit for member_skew_s. Measured points of a
// profile move with the rate of their kind.
struct LearnedConstant {
  std::string_view name;
  double known_to = 0;  // standard deviation of the prior
  // Limits of the move. Rates stay below published values of links, network and memory. Times stay
  // within a fifth and five times their value. Shares of a peak end at 1.
  double min = 0, max = 0;
  void (*move)(DeviceProfile& profile, double by) = nullptr;
};
inline constexpr std::size_t kLearnedConstants = 12;
using ConstantMoves = std::array<double, kLearnedConstants>;

// In the order of ConstantMoves. The time of everything at once (frameworks, clocks); efficiencies
// of products, memory, scores and attention; times of a kernel and the host; rate and latency of
// links and network; skew of members.
const std::array<LearnedConstant, kLearnedConstants>& LearnedConstants();

// Moves all constants of `profile` and marks them as interpolated.
void MoveConstants(const ConstantMoves& by, DeviceProfile& profile);

// Refuses a learned state whose constants are not those above in their order, or whose covariance
// is not positive definite.
Result<void> CheckLearned(const DeviceProfile& profile);

// Covariance of the constants' errors, row by row: what `profile` learned, else the priors.
// Precondition: CheckLearned.
std::vector<double> CovarianceOf(const DeviceProfile& profile);

// Error of one plan alone, one standard deviation: what `profile` learned, else kPlanError.
double PlanErrorOf(const DeviceProfile& profile);
inline constexpr double kPlanError = 0.1;

}  // namespace foretrain

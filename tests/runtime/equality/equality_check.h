// The comparison shared by the equality tests: do two plans train the same?
#pragma once

#include <cstdint>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// fp32 sums of 128 tokens in another order differ by 2^-24 * sqrt(128) = 7e-7 of their terms, and
// somewhat more after 4 layers.
inline constexpr double kLossTolerance = 1e-5;
inline constexpr double kGradientTolerance = 5e-5;

// Trains a tiny model with both plans. Expects equal losses and squared norms at every step, and
// equal gradients in the first, before Adam divides by small moments. `expected` must have learned:
// its loss falls from log(256), that of a guess, by at least `learns`. `seed`: of the weights.
void ExpectTrainsAlike(const ModelSpec& model, const Plan& expected, const Plan& actual,
                       double learns = 0.3, std::uint64_t seed = 5);

}  // namespace foretrain

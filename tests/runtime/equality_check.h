// Whether two plans train the same: the comparison that tests of equality share.
#pragma once

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// fp32 sums of 128 tokens in another order: 2^-24 * sqrt(128) = 7e-7 of the terms' size, and some
// more through 4 layers.
inline constexpr double kLossTolerance = 1e-5;
inline constexpr double kGradientTolerance = 5e-5;

// Trains a tiny model with both plans and expects the same losses and squared norms at every step,
// and the same gradients of the first, before Adam's division by small moments enlarges
// differences. `expected` must have learnt: its loss falls from log(256), which a guess has, by
// `learns` at least.
void ExpectTrainsAlike(const ModelSpec& model, const Plan& expected, const Plan& actual,
                       double learns = 0.3);

}  // namespace foretrain

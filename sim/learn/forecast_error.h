// Error of a forecast step, and of the difference between two: how constants that are not exactly
// known act on each plan.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/learn/learned_constants.h"

namespace foretrain {

// Step of the numerical derivative by a constant.
double DifferenceOf(std::size_t constant);

// Derivatives of ln(step time) by the constants, for each plan, in closed form. O(13 forecasts per
// plan).
std::vector<ConstantMoves> DerivativesOf(const ModelSpec& model, const CostModel& costs,
                                         std::span<const Plan> plans, int threads = 1);

// a^T covariance b, and the same for a = b.
double CovarianceBetween(const ConstantMoves& a, const ConstantMoves& b,
                         const std::vector<double>& covariance);
double VarianceOf(const ConstantMoves& derivatives, const std::vector<double>& covariance);

// A forecast step and how it errs.
struct UncertainStep {
  double step_s = 0;
  ConstantMoves derivatives{};
  double plan_error = kPlanError;  // of this plan alone, one standard deviation
};

// Probability that the first of two plans is faster when both are measured, 0 to 1.
//
// The logarithms of both step times err by the constants' errors, which they share, and each by an
// independent error of its own:
//   variance of ln(second / first) = (a - b)^T covariance (a - b) + plan_error_a^2 + plan_error_b^2
// kDisturbed of the pairs are ordered by something that no forecast knows: either way is as likely.
double FirstIsFaster(const UncertainStep& first, const UncertainStep& second,
                     const std::vector<double>& covariance);
inline constexpr double kDisturbed = 0.04;

}  // namespace foretrain

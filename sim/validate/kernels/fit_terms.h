// Fits the positive constants of a model of kernel times to measured times.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace foretrain {

// One constant before the fit.
struct TermGuess {
  double value = 1;     // > 0
  double known_to = 1;  // standard deviation of ln(value)
  double max = 1e30;
};

// Writes ln(seconds) of every sample with the given terms.
using TermModel = std::function<void(std::span<const double> terms, std::span<double> log_s)>;

// The terms that minimize a robust loss of ln(model / measured) over all samples plus the squared
// moves of ln(term) in units of `known_to`. The loss grows as a square up to 0.1 and then as a
// logarithm (Cauchy), so that rows of another kernel do not pull the terms. Damped Gauss-Newton
// steps with forward differences in ln(term). Same input, same result. O(steps * terms) calls of
// `model`.
std::vector<double> FitTerms(std::span<const TermGuess> guesses, const TermModel& model,
                             std::span<const double> log_measured_s);

}  // namespace foretrain

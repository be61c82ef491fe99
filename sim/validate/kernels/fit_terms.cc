#include "sim/validate/kernels/fit_terms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/numeric/cholesky.h"
#include "base/result.h"

namespace foretrain {
namespace {

constexpr double kNoise = 0.1;    // standard deviation of ln(model / measured) of one sample
constexpr double kOutlier = 0.1;  // residual at which a sample's weight is one half
constexpr double kStep = 0.01;    // of ln(term), for derivatives
constexpr int kIterations = 60;
constexpr int kDampings = 6;
constexpr double kConverged = 1e-5;  // relative decrease of the cost below which the fit ends

double Square(double x) { return x * x; }

class TermFit {
 public:
  TermFit(std::span<const TermGuess> guesses, const TermModel& model,
          std::span<const double> measured)
      : guesses_(guesses), model_(model), measured_(measured) {}

  std::vector<double> TermsAt(const std::vector<double>& by) const {
    std::vector<double> terms;
    for (std::size_t i = 0; i < by.size(); ++i) {
      terms.push_back(std::min(guesses_[i].max, guesses_[i].value * std::exp(by[i])));
    }
    return terms;
  }

  std::vector<double> Residuals(const std::vector<double>& by) const {
    std::vector<double> out(measured_.size());
    model_(TermsAt(by), out);
    for (std::size_t row = 0; row < out.size(); ++row) out[row] -= measured_[row];
    return out;
  }

  double Cost(const std::vector<double>& residuals, const std::vector<double>& by) const {
    double cost = 0;
    for (const double r : residuals) {
      cost += Square(kOutlier / kNoise) * std::log1p(Square(r / kOutlier));
    }
    for (std::size_t i = 0; i < by.size(); ++i) cost += Square(by[i] / guesses_[i].known_to);
    return cost;
  }

  // Sums of the normal equations at `by`: the matrix without damping, and the right side.
  void Sums(const std::vector<double>& by, const std::vector<double>& residuals,
            std::vector<double>& matrix, std::vector<double>& right) const {
    const std::size_t n = by.size();
    std::vector<std::vector<double>> slopes;
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> moved = by;
      moved[i] += kStep;
      slopes.push_back(Residuals(moved));
    }
    matrix.assign(n * n, 0);
    right.assign(n, 0);
    std::vector<double> slope(n);
    for (std::size_t row = 0; row < residuals.size(); ++row) {
      const double weight = 1 / (1 + Square(residuals[row] / kOutlier)) / Square(kNoise);
      for (std::size_t i = 0; i < n; ++i) slope[i] = (slopes[i][row] - residuals[row]) / kStep;
      for (std::size_t i = 0; i < n; ++i) {
        right[i] -= weight * slope[i] * residuals[row];
        for (std::size_t j = 0; j <= i; ++j) matrix[i * n + j] += weight * slope[i] * slope[j];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double prior = 1 / Square(guesses_[i].known_to);
      right[i] -= prior * by[i];
      matrix[i * n + i] += prior;
    }
  }

 private:
  std::span<const TermGuess> guesses_;
  const TermModel& model_;
  std::span<const double> measured_;
};

}  // namespace

// Each iteration tries up to kDampings steps, with damping 8 times larger each time. A step that
// lowers the cost is kept, and damping falls to a fifth.
std::vector<double> FitTerms(std::span<const TermGuess> guesses, const TermModel& model,
                             std::span<const double> log_measured_s) {
  const TermFit fit(guesses, model, log_measured_s);
  const std::size_t n = guesses.size();
  std::vector<double> by(n), matrix, right;
  std::vector<double> residuals = fit.Residuals(by);
  double cost = fit.Cost(residuals, by), damping = 0.01;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    fit.Sums(by, residuals, matrix, right);
    const double before = cost;
    for (int attempt = 0; attempt < kDampings && cost == before; ++attempt) {
      std::vector<double> damped = matrix, there = right;
      for (std::size_t i = 0; i < n; ++i) damped[i * n + i] *= 1 + damping;
      const std::optional<Cholesky> factor = Cholesky::Of(std::move(damped), n);
      FT_CHECK(factor.has_value());  // the priors make it positive definite
      factor->Solve(there);
      for (std::size_t i = 0; i < n; ++i) there[i] = by[i] + std::clamp(there[i], -1.0, 1.0);
      damping *= 8;
      std::vector<double> moved = fit.Residuals(there);
      if (!(fit.Cost(moved, there) < cost)) continue;
      cost = fit.Cost(moved, there);
      by = std::move(there);
      residuals = std::move(moved);
      damping /= 40;
    }
    if (cost > (1 - kConverged) * before) break;
  }
  return fit.TermsAt(by);
}

}  // namespace foretrain

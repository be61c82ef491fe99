#include "sim/learn/forecast_error.h"

#include <cmath>

#include "base/parallel.h"
#include "sim/search/evaluate/evaluator.h"

namespace foretrain {

namespace {
constexpr double kStep = 0.02;  // as a multiple of known_to

// ln(step time) of each plan, with one constant moved.
std::vector<double> Logarithms(const ModelSpec& model, const CostModel& costs,
                               const ConstantMoves& by, std::span<const Plan> plans) {
  DeviceProfile profile = costs.profile();
  MoveConstants(by, profile);
  const auto moved = CostModel::Make(costs.cluster(), profile);
  FT_CHECK(moved.has_value());
  Evaluator evaluator(model, *moved, AllPlanFields());
  std::vector<double> out;
  for (const Plan& plan : plans) out.push_back(std::log(evaluator.Evaluate(plan).step_s));
  return out;
}
}  // namespace

double DifferenceOf(std::size_t constant) { return kStep * LearnedConstants()[constant].known_to; }

std::vector<ConstantMoves> DerivativesOf(const ModelSpec& model, const CostModel& costs,
                                         std::span<const Plan> plans, int threads) {
  const std::vector<double> here = Logarithms(model, costs, {}, plans);
  std::vector<ConstantMoves> out(plans.size());
  ForEachInParallel(kLearnedConstants, threads, [&](std::size_t c) {
    ConstantMoves by{};
    by[c] = DifferenceOf(c);
    const std::vector<double> there = Logarithms(model, costs, by, plans);
    for (std::size_t i = 0; i < plans.size(); ++i) out[i][c] = (there[i] - here[i]) / by[c];
  });
  return out;
}

double CovarianceBetween(const ConstantMoves& a, const ConstantMoves& b,
                         const std::vector<double>& covariance) {
  double sum = 0;
  for (std::size_t i = 0; i < kLearnedConstants; ++i) {
    for (std::size_t j = 0; j < kLearnedConstants; ++j) {
      sum += a[i] * covariance[i * kLearnedConstants + j] * b[j];
    }
  }
  return sum;
}

double VarianceOf(const ConstantMoves& derivatives, const std::vector<double>& covariance) {
  return CovarianceBetween(derivatives, derivatives, covariance);
}

// The share of the normal distribution of ln(second / first) above 0.
double FirstIsFaster(const UncertainStep& first, const UncertainStep& second,
                     const std::vector<double>& covariance) {
  ConstantMoves difference{};
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    difference[c] = second.derivatives[c] - first.derivatives[c];
  }
  const double variance = VarianceOf(difference, covariance) + first.plan_error * first.plan_error +
                          second.plan_error * second.plan_error;
  const double later = std::log(second.step_s / first.step_s);
  return 0.5 * kDisturbed + (1 - kDisturbed) * 0.5 * std::erfc(-later / std::sqrt(2 * variance));
}

}  // namespace foretrain

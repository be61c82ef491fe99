#include "sim/learn/learn.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/numeric/cholesky.h"
#include "base/parallel.h"
#include "sim/config/rules/refuse.h"
#include "sim/learn/forecast_error.h"
#include "sim/search/evaluate/evaluator.h"

namespace foretrain {
namespace {

constexpr double kOutlier = 0.3;  // residual at which a row's weight is one half
constexpr int kIterations = 8;
constexpr int kDampings = 4;
constexpr double kConverged = 2e-3;  // relative decrease of the cost below which the fit ends
constexpr std::size_t kN = kLearnedConstants;

double Square(double x) { return x * x; }
double WeightOf(double residual) { return 1 / (1 + Square(residual / kOutlier)); }

// Steps with the same model, machine and profile. They share one evaluator, which caches costs of
// blocks.
struct Group {
  const MeasuredStep* of = nullptr;
  std::vector<std::size_t> rows;
};

std::vector<Group> GroupsOf(std::span<const MeasuredStep> steps) {
  std::vector<Group> groups;
  for (std::size_t row = 0; row < steps.size(); ++row) {
    const MeasuredStep& step = steps[row];
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.of->model == step.model && other.of->cluster == step.cluster &&
             other.of->profile == step.profile;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{&step, {}});
    group->rows.push_back(row);
  }
  return groups;
}

// Residuals and derivatives of all steps, computed in parallel over groups.
class Fit {
 public:
  Fit(std::span<const MeasuredStep> steps, int threads, const std::function<bool()>& cancelled)
      : steps_(steps), groups_(GroupsOf(steps)), threads_(threads), cancelled_(cancelled) {}

  bool Cancelled() const { return cancelled_ && cancelled_(); }

  // ln(forecast / measured) of each step with all constants moved by `by`.
  std::vector<double> Residuals(const ConstantMoves& by) const {
    std::vector<double> out(steps_.size());
    ForEachInParallel(groups_.size(), threads_, [&](std::size_t g) {
      if (Cancelled()) return;
      const MeasuredStep& of = *groups_[g].of;
      DeviceProfile profile = of.profile;
      MoveConstants(by, profile);
      const auto costs = CostModel::Make(of.cluster, profile);
      FT_CHECK(costs.has_value());
      Evaluator evaluator(of.model, *costs, AllPlanFields());
      for (const std::size_t row : groups_[g].rows) {
        out[row] = std::log(evaluator.Evaluate(steps_[row].plan).step_s / steps_[row].step_s);
      }
    });
    return out;
  }

  // Derivatives by forward differences: [row][constant]. Each constant costs one forecast of all
  // steps.
  std::vector<ConstantMoves> Derivatives(const ConstantMoves& by,
                                         const std::vector<double>& residuals) const {
    std::vector<ConstantMoves> out(steps_.size());
    for (std::size_t c = 0; c < kN; ++c) {
      ConstantMoves moved = by;
      const double step = DifferenceOf(c);
      moved[c] += step;
      const std::vector<double> there = Residuals(moved);
      for (std::size_t row = 0; row < out.size(); ++row) {
        out[row][c] = (there[row] - residuals[row]) / step;
      }
    }
    return out;
  }

 private:
  std::span<const MeasuredStep> steps_;
  std::vector<Group> groups_;
  int threads_;
  const std::function<bool()>& cancelled_;
};

// The prior: its covariance and the inverse, row by row.
struct Prior {
  std::vector<double> precision;

  explicit Prior(const std::vector<double>& covariance) : precision(Inverse(covariance)) {}

  static std::vector<double> Inverse(const std::vector<double>& of) {
    const auto factor = Cholesky::Of(of, kN);
    FT_CHECK(factor.has_value());
    std::vector<double> out(kN * kN, 0.0);
    for (std::size_t i = 0; i < kN; ++i) {
      const std::span<double> column(&out[i * kN], kN);  // the inverse is symmetric
      column[i] = 1;
      factor->Solve(column);
    }
    return out;
  }

  // The gradient of half the prior's cost.
  ConstantMoves Times(const ConstantMoves& by) const {
    ConstantMoves out{};
    for (std::size_t i = 0; i < kN; ++i) {
      for (std::size_t j = 0; j < kN; ++j) out[i] += precision[i * kN + j] * by[j];
    }
    return out;
  }
};

// Cost to minimise: a Cauchy loss of the residuals plus the prior. The loss grows only with the
// logarithm of large residuals; its weights are WeightOf.
double CostOf(const std::vector<double>& residuals, const ConstantMoves& by, const Prior& prior) {
  double cost = 0;
  for (const double r : residuals) {
    cost += Square(kOutlier / kPlanError) * std::log1p(Square(r / kOutlier));
  }
  const ConstantMoves pulled = prior.Times(by);
  for (std::size_t c = 0; c < kN; ++c) cost += by[c] * pulled[c];
  return cost;
}

// The precision of the posterior: that of the prior and of the steps, each known to `noise`.
std::vector<double> Precision(const std::vector<double>& residuals,
                              const std::vector<ConstantMoves>& derivatives, const Prior& prior,
                              double noise) {
  std::vector<double> out = prior.precision;
  for (std::size_t row = 0; row < residuals.size(); ++row) {
    const double weight = WeightOf(residuals[row]) / Square(noise);
    for (std::size_t i = 0; i < kN; ++i) {
      for (std::size_t j = 0; j < kN; ++j) {
        out[i * kN + j] += weight * derivatives[row][i] * derivatives[row][j];
      }
    }
  }
  return out;
}

// One damped Gauss-Newton step from `by`. The prior keeps the matrix positive definite even where
// no step depends on a constant.
ConstantMoves StepFrom(const ConstantMoves& by, const std::vector<double>& residuals,
                       const std::vector<ConstantMoves>& derivatives, const Prior& prior,
                       double damping) {
  std::vector<double> a = Precision(residuals, derivatives, prior, kPlanError);
  for (std::size_t c = 0; c < kN; ++c) a[c * kN + c] *= 1 + damping;
  ConstantMoves out = prior.Times(by);
  for (double& pulled : out) pulled = -pulled;
  for (std::size_t row = 0; row < residuals.size(); ++row) {
    const double pull = WeightOf(residuals[row]) / Square(kPlanError) * residuals[row];
    for (std::size_t c = 0; c < kN; ++c) out[c] -= pull * derivatives[row][c];
  }
  const auto factor = Cholesky::Of(std::move(a), kN);
  FT_CHECK(factor.has_value());
  factor->Solve(out);
  for (std::size_t c = 0; c < kN; ++c) {
    out[c] = std::clamp(by[c] + out[c], LearnedConstants()[c].min, LearnedConstants()[c].max);
  }
  return out;
}

double SumOfSquares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

double RootMeanSquare(const std::vector<double>& values) {
  return std::sqrt(SumOfSquares(values) / static_cast<double>(values.size()));
}

// Fills in covariance and errors. The steps determine as many constants as the share of the prior's
// precision that they add: those degrees of freedom are taken from the residuals.
void FindErrors(const std::vector<double>& residuals, const std::vector<ConstantMoves>& derivatives,
                const Prior& prior, Learned& out) {
  const auto steps = static_cast<double>(residuals.size());
  const std::vector<double> first =
      Prior::Inverse(Precision(residuals, derivatives, prior, kPlanError));
  double fitted = 0;
  for (std::size_t row = 0; row < residuals.size(); ++row) {
    fitted += WeightOf(residuals[row]) * VarianceOf(derivatives[row], first) / Square(kPlanError);
  }
  out.plan_error = std::sqrt((kPlanErrorSteps * Square(kPlanError) + SumOfSquares(residuals)) /
                             (kPlanErrorSteps + std::max(0.0, steps - fitted)));
  out.covariance = Prior::Inverse(Precision(residuals, derivatives, prior, out.plan_error));
  double left = 0;
  for (const ConstantMoves& of : derivatives) left += VarianceOf(of, out.covariance) / steps;
  out.error = std::sqrt(Square(out.plan_error) + left);
}

}  // namespace

// Each iteration tries up to kDampings steps with damping 8 times larger each time. A step that
// lowers the cost is kept, and damping falls to a fifth. The fit ends when an iteration gains less
// than kConverged.
Result<Learned> LearnFrom(std::span<const MeasuredStep> steps, int threads,
                          const std::function<bool()>& cancelled) {
  if (steps.empty()) return Refuse("no measured step to learn from: give at least one");
  const Fit fit(steps, threads, cancelled);
  const DeviceProfile& base = steps.front().profile;
  const Prior prior(CovarianceOf(base));
  Learned out;
  out.runs = static_cast<int>(steps.size()) + (base.learned.has_value() ? base.learned->runs : 0);
  std::vector<double> residuals = fit.Residuals(out.by);
  out.error_before = RootMeanSquare(residuals);
  double cost = CostOf(residuals, out.by, prior), damping = 0.01;
  std::vector<ConstantMoves> derivatives;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    derivatives = fit.Derivatives(out.by, residuals);
    const double before = cost;
    for (int attempt = 0; attempt < kDampings && cost == before; ++attempt) {
      const ConstantMoves by = StepFrom(out.by, residuals, derivatives, prior, damping);
      const std::vector<double> there = fit.Residuals(by);
      if (fit.Cancelled()) return Fail(ErrorCode::kAborted, "learning was cancelled");
      damping *= 8;
      if (!(CostOf(there, by, prior) < cost)) continue;
      cost = CostOf(there, by, prior);
      out.by = by;
      residuals = there;
      damping /= 40;
    }
    if (cost > (1 - kConverged) * before) break;
  }
  out.error_after = RootMeanSquare(residuals);
  FindErrors(residuals, derivatives, prior, out);
  return out;
}

// Moves add up where the profile had learned before.
void ApplyLearned(const Learned& learned, std::string_view preset, DeviceProfile& profile) {
  MoveConstants(learned.by, profile);
  profile.error = learned.error;
  LearnedState state;
  state.runs = learned.runs;
  state.preset = preset;
  for (const LearnedConstant& constant : LearnedConstants()) {
    state.constants.emplace_back(constant.name);
  }
  state.moves.assign(learned.by.begin(), learned.by.end());
  if (profile.learned.has_value()) {
    for (std::size_t c = 0; c < kN; ++c) state.moves[c] += profile.learned->moves[c];
  }
  state.covariance = learned.covariance;
  state.plan_error = learned.plan_error;
  profile.learned = std::move(state);
}

void TakeLearned(const DeviceProfile& from, DeviceProfile& profile) {
  FT_CHECK(from.learned.has_value());
  ConstantMoves by{};
  std::copy(from.learned->moves.begin(), from.learned->moves.end(), by.begin());
  MoveConstants(by, profile);
  profile.learned = from.learned;
  profile.error = from.error;
}

}  // namespace foretrain

#include "sim/validate/fit_profile.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "sim/config/rules/refuse.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/search/evaluate/evaluator.h"

namespace foretrain {
namespace {

constexpr double kNoise = 0.1;    // standard deviation of ln(forecast / measured) of one row
constexpr double kOutlier = 0.3;  // residual at which a row's weight is one half
constexpr double kStep = 0.02;    // step of numerical derivatives, as a multiple of known_to
constexpr int kIterations = 8;
constexpr int kDampings = 4;
constexpr double kConverged = 2e-3;  // relative decrease of the cost below which the fit ends
constexpr double kSkewUnit = 20e-6;  // seconds
constexpr double kFiveTimes = 1.61;  // ln 5

using Vector = std::array<double, kFitConstants>;

// Multiplies a value by e^by, limited to `max`.
void Scale(Figure& figure, double by, double max = 1e30) {
  figure = {std::min(max, figure.value * std::exp(by)), Provenance::kInterpolated};
}

// Scales architecture constants of the kernels, where the profile has any.
template <auto... kKernelFigures>
void MoveKernels(DeviceProfile& profile, double by, double max) {
  if (profile.kernels.has_value()) {
    (Scale(profile.kernels->architecture.*kKernelFigures, by, max), ...);
  }
}

// A constant of the fit moves the kernel model and the plain rates together. So it acts whether or
// not the architecture is known.
void MoveProducts(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::sustained_share, &Architecture::sustained_short_share>(profile, by, 1);
  ProfileRates& rates = profile.rates;
  for (Figure* rate :
       {&rates.gemm_flop_per_s, &rates.gemm_tf32_flop_per_s, &rates.gemm_fp16_flop_per_s,
        &rates.gemm_bf16_flop_per_s, &rates.gemm_fp8_flop_per_s, &rates.gemm_fp4_flop_per_s}) {
    if (rate->value > 0) Scale(*rate, by);
  }
}
void MoveMemory(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::memory_efficiency>(profile, by, 1);
  Scale(profile.rates.memory_bytes_per_s, by);
}
void MoveScores(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::score_efficiency>(profile, by, 1);
}
void MoveAttention(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::flash_forward, &Architecture::flash_backward,
              &Architecture::cudnn_forward, &Architecture::cudnn_backward>(profile, by, 1);
  Scale(profile.rates.attention_forward_flop_per_s, by);
  Scale(profile.rates.attention_backward_flop_per_s, by);
}
void MoveKernel(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::kernel_s>(profile, by, 1e-3);
  Scale(profile.rates.kernel_s, by);
}
void MoveHost(DeviceProfile& profile, double by) { Scale(profile.rates.launch_s, by); }
void MoveLinks(DeviceProfile& profile, double by) { Scale(profile.rates.link_bytes_per_s, by); }
void MoveLinkLatency(DeviceProfile& profile, double by) {
  Scale(profile.rates.link_base_s, by);
  Scale(profile.rates.link_hop_s, by);
}
void MoveNetwork(DeviceProfile& profile, double by) {
  Scale(profile.rates.network_bytes_per_s, by);
}
void MoveNetworkLatency(DeviceProfile& profile, double by) {
  Scale(profile.rates.network_base_s, by);
  Scale(profile.rates.network_hop_s, by);
}
void MoveSkew(DeviceProfile& profile, double by) {
  Figure& skew = profile.rates.member_skew_s;
  skew = {std::max(0.0, skew.value + kSkewUnit * by), Provenance::kInterpolated};
}

// Rows with the same model, machine and system. They share one evaluator, which caches costs of
// blocks.
struct Group {
  RunCase of;
  std::vector<std::pair<Plan, double>> rows;  // each with its measured seconds
};

Plan PricedPlan(const RunCase& of) { return of.plans.front(); }

// Rows without a measured step or with more than one possible plan are left out.
std::vector<Group> GroupsOf(std::span<const PublishedRun> runs, const CaseSources& sources) {
  std::vector<Group> groups;
  for (const PublishedRun& run : runs) {
    if (run.step_s <= 0) continue;
    Result<RunCase> of = CaseOf(run, sources);
    if (!of.has_value() || of->plans.size() != 1) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.of.model == of->model && other.of.cluster == of->cluster &&
             other.of.system == of->system;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{*of, {}});
    group->rows.emplace_back(PricedPlan(*of), run.step_s);
  }
  return groups;
}

// Residuals and derivatives of all rows, computed in parallel over groups.
class Fit {
 public:
  Fit(std::vector<Group> groups, int threads, const std::function<bool()>& cancelled)
      : groups_(std::move(groups)), threads_(threads), cancelled_(cancelled) {
    for (const Group& group : groups_) {
      first_.push_back(rows_);
      rows_ += group.rows.size();
    }
  }
  std::size_t rows() const { return rows_; }
  bool Cancelled() const { return cancelled_ && cancelled_(); }

  // ln(forecast / measured) of each row with all constants moved by `by`.
  std::vector<double> Residuals(const Vector& by) const {
    std::vector<double> out(rows_);
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t g = next++; g < groups_.size() && !Cancelled(); g = next++) {
        OfGroup(groups_[g], by, std::span(out).subspan(first_[g], groups_[g].rows.size()));
      }
    };
    std::vector<std::jthread> threads;
    for (int i = 1; i < threads_; ++i) threads.emplace_back(work);
    work();
    threads.clear();
    return out;
  }

  // Derivatives by forward differences: [row][constant]. Each constant costs one forecast of all
  // rows.
  std::vector<Vector> Derivatives(const Vector& by, const std::vector<double>& residuals) const {
    std::vector<Vector> out(rows_);
    for (std::size_t c = 0; c < kFitConstants; ++c) {
      Vector moved = by;
      const double step = kStep * FitConstants()[c].known_to;
      moved[c] += step;
      const std::vector<double> there = Residuals(moved);
      for (std::size_t row = 0; row < rows_; ++row) {
        out[row][c] = (there[row] - residuals[row]) / step;
      }
    }
    return out;
  }

 private:
  // A fresh profile per call: constants are moved from their derived values, not from an earlier
  // move.
  static void OfGroup(const Group& group, const Vector& by, std::span<double> out) {
    DeviceProfile profile = DeriveProfile(group.of.cluster, group.of.system);
    for (std::size_t c = 0; c < kFitConstants; ++c) FitConstants()[c].move(profile, by[c]);
    const auto costs = CostModel::Make(group.of.cluster, profile);
    FT_CHECK(costs.has_value());
    Evaluator evaluator(group.of.model, *costs, AllPlanFields());
    for (std::size_t row = 0; row < out.size(); ++row) {
      const auto& [plan, measured_s] = group.rows[row];
      out[row] = std::log(evaluator.Evaluate(plan).step_s / measured_s);
    }
  }

  std::vector<Group> groups_;
  std::vector<std::size_t> first_;
  std::size_t rows_ = 0;
  int threads_;
  const std::function<bool()>& cancelled_;
};

double Square(double x) { return x * x; }

// Cost to minimise: a Cauchy loss of the rows plus squared moves relative to known_to. The loss
// grows only with the logarithm of large residuals; its weights are 1 / (1 + (r / kOutlier)^2).
double CostOf(const std::vector<double>& residuals, const Vector& by) {
  double cost = 0;
  for (const double r : residuals) {
    cost += Square(kOutlier / kNoise) * std::log1p(Square(r / kOutlier));
  }
  for (std::size_t c = 0; c < kFitConstants; ++c)
    cost += Square(by[c] / FitConstants()[c].known_to);
  return cost;
}

// Solves a x = b for a symmetric positive definite `a` by Cholesky decomposition. Reads the lower
// triangle.
Vector Solve(std::array<Vector, kFitConstants> a, Vector b) {
  constexpr std::size_t n = kFitConstants;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

// One damped Gauss-Newton step from `by`. The prior of each constant is added to the diagonal,
// which keeps the matrix positive definite even where no row depends on a constant.
Vector StepFrom(const Vector& by, const std::vector<double>& residuals,
                const std::vector<Vector>& derivatives, double damping) {
  std::array<Vector, kFitConstants> a{};
  Vector b{};
  for (std::size_t row = 0; row < residuals.size(); ++row) {
    const double weight = 1 / (1 + Square(residuals[row] / kOutlier)) / Square(kNoise);
    for (std::size_t i = 0; i < kFitConstants; ++i) {
      b[i] -= weight * derivatives[row][i] * residuals[row];
      for (std::size_t j = 0; j <= i; ++j) {
        a[i][j] += weight * derivatives[row][i] * derivatives[row][j];
      }
    }
  }
  for (std::size_t i = 0; i < kFitConstants; ++i) {
    const double prior = 1 / Square(FitConstants()[i].known_to);
    b[i] -= prior * by[i];
    a[i][i] = (a[i][i] + prior) * (1 + damping);
  }
  Vector out = Solve(a, b);
  for (std::size_t i = 0; i < kFitConstants; ++i) {
    out[i] = std::clamp(by[i] + out[i], FitConstants()[i].min, FitConstants()[i].max);
  }
  return out;
}

// Root mean square with `fitted` degrees of freedom removed.
double RootMeanSquare(const std::vector<double>& residuals, std::size_t fitted) {
  double sum = 0;
  for (const double r : residuals) sum += r * r;
  const std::size_t free = residuals.size() > fitted ? residuals.size() - fitted : 1;
  return std::sqrt(sum / static_cast<double>(free));
}

}  // namespace

const std::array<FitConstant, kFitConstants>& FitConstants() {
  static constexpr std::array<FitConstant, kFitConstants> kConstants = {{
      {"product_rate", 0.15, -0.7, 0.25, MoveProducts},
      {"memory_efficiency", 0.15, -0.7, 0.2, MoveMemory},
      {"score_efficiency", 0.3, -0.7, 0.6, MoveScores},
      {"attention", 0.15, -0.7, 0.4, MoveAttention},
      {"kernel_s", 0.5, -kFiveTimes, kFiveTimes, MoveKernel},
      {"host_op_s", 0.5, -kFiveTimes, kFiveTimes, MoveHost},
      {"link_bytes_per_s", 0.3, -kFiveTimes, 0.22, MoveLinks},
      {"link_latency", 0.7, -kFiveTimes, kFiveTimes, MoveLinkLatency},
      {"network_bytes_per_s", 0.3, -kFiveTimes, 0.16, MoveNetwork},
      {"network_latency", 0.7, -kFiveTimes, kFiveTimes, MoveNetworkLatency},
      {"member_skew_s", 1.0, 0, 2.5, MoveSkew},
  }};
  return kConstants;
}

// Each iteration tries up to kDampings steps with damping 8 times larger each time. A step that
// lowers the cost is kept, and damping falls to a fifth. The fit ends when an iteration gains less
// than kConverged.
Result<ProfileFit> FitProfile(std::span<const PublishedRun> runs, const CaseSources& sources,
                              int threads, const std::function<bool()>& cancelled) {
  const Fit fit(GroupsOf(runs, sources), threads, cancelled);
  if (fit.rows() < kFitConstants) {
    return Refuse(
        "{} rows with a measured step and a whole plan are too few to fit {} constants to: give at "
        "least {}",
        fit.rows(), kFitConstants, kFitConstants);
  }
  ProfileFit out;
  out.rows = static_cast<int>(fit.rows());
  std::vector<double> residuals = fit.Residuals(out.by);
  out.error_before = RootMeanSquare(residuals, 0);
  double cost = CostOf(residuals, out.by), damping = 0.01;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const std::vector<Vector> derivatives = fit.Derivatives(out.by, residuals);
    const double before = cost;
    for (int attempt = 0; attempt < kDampings && cost == before; ++attempt) {
      const Vector by = StepFrom(out.by, residuals, derivatives, damping);
      const std::vector<double> there = fit.Residuals(by);
      if (fit.Cancelled()) return Fail(ErrorCode::kAborted, "the fit was cancelled");
      damping *= 8;
      if (!(CostOf(there, by) < cost)) continue;
      cost = CostOf(there, by);
      out.by = by;
      residuals = there;
      damping /= 40;
    }
    if (cost > (1 - kConverged) * before) break;
  }
  out.error_after = RootMeanSquare(residuals, kFitConstants);
  return out;
}

void ApplyFit(const ProfileFit& fit, DeviceProfile& profile) {
  for (std::size_t c = 0; c < kFitConstants; ++c) FitConstants()[c].move(profile, fit.by[c]);
  profile.error = fit.error_after;
}

}  // namespace foretrain

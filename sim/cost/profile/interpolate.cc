#include "sim/cost/profile/interpolate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr double kSingular = 1e-12;
constexpr double kSmallestError = 0.01;
constexpr double kLoneSampleError = 0.25;

using Matrix = std::array<std::array<double, kLawTerms>, kLawTerms>;

// Solves a x = b with `n` unknowns by Gaussian elimination with pivoting. False if a is singular.
bool Solve(Matrix a, LawTerms b, std::size_t n, LawTerms& x) {
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < kSingular) return false;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (std::size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    x[i] = b[i];
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= a[i][k] * x[k];
    x[i] /= a[i][i];
  }
  return true;
}

// Least-squares fit of one set of terms (one bit each) through the normal equations. Rows are
// divided by their seconds, because errors are relative. Columns are divided by their maximum, so
// that one threshold detects singular matrices. False if singular, or if a coefficient is not
// positive.
bool FitSet(const std::vector<LawTerms>& scaled, unsigned set, LawTerms& coefficients,
            double& error) {
  std::array<std::size_t, kLawTerms> terms{};
  std::size_t n = 0;
  for (std::size_t t = 0; t < kLawTerms; ++t) {
    if ((set >> t & 1U) != 0) terms[n++] = t;
  }
  Matrix a{};
  LawTerms b{};
  for (const LawTerms& row : scaled) {
    for (std::size_t j = 0; j < n; ++j) {
      b[j] += row[terms[j]];
      for (std::size_t k = 0; k < n; ++k) a[j][k] += row[terms[j]] * row[terms[k]];
    }
  }
  LawTerms x{};
  if (n > scaled.size() || !Solve(a, b, n, x)) return false;
  coefficients = {};
  for (std::size_t j = 0; j < n; ++j) {
    if (!(x[j] > 0)) return false;
    coefficients[terms[j]] = x[j];
  }
  error = 0;
  for (const LawTerms& row : scaled) {
    const double missed =
        std::inner_product(coefficients.begin(), coefficients.end(), row.begin(), -1.0);
    error += missed * missed;
  }
  return true;
}

double SquaredDistance(const LogPoint& a, const LogPoint& b) {
  double sum = 0;
  for (std::size_t d = 0; d < kMaxDimensions; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

}  // namespace

// Non-negative least squares by enumeration: 31 sets are cheap, and the result does not depend on
// an iteration's start.
TimeLaw::TimeLaw(const std::vector<LawTerms>& rows, const std::vector<double>& seconds) {
  LawTerms scale{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t t = 0; t < kLawTerms; ++t) {
      scale[t] = std::max(scale[t], rows[i][t] / seconds[i]);
    }
  }
  std::vector<LawTerms> scaled = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t t = 0; t < kLawTerms; ++t) {
      if (scale[t] > 0) scaled[i][t] /= seconds[i] * scale[t];
    }
  }
  double min = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < (1U << kLawTerms); ++set) {
    LawTerms coefficients{};
    double error = 0;
    // Ignores improvements within rounding error, so that the earlier set wins.
    if (!FitSet(scaled, set, coefficients, error) ||
        error >= min - 1e-12 * static_cast<double>(rows.size())) {
      continue;
    }
    min = error;
    for (std::size_t t = 0; t < kLawTerms; ++t) {
      coefficients_[t] = coefficients[t] > 0 ? coefficients[t] / scale[t] : 0.0;
    }
  }
}

double TimeLaw::operator()(const LawTerms& terms) const {
  return std::inner_product(coefficients_.begin(), coefficients_.end(), terms.begin(), 0.0);
}

// Points are sorted and equal ones averaged, which makes the result independent of input order.
LogField::LogField(std::vector<LogPoint> at, std::vector<double> logs, std::size_t dimensions)
    : dimensions_(dimensions) {
  FT_CHECK(at.size() == logs.size() && dimensions >= 1 && dimensions <= kMaxDimensions);
  std::vector<std::size_t> order(at.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return at[a] < at[b]; });
  for (std::size_t i = 0; i < order.size();) {
    double sum = 0;
    std::size_t j = i;
    for (; j < order.size() && at[order[j]] == at[order[i]]; ++j) sum += logs[order[j]];
    at_.push_back(at[order[i]]);
    logs_.push_back(sum / static_cast<double>(j - i));
    i = j;
  }
}

// Exact comparison is right here: equal shapes give bit-equal logarithms.
std::size_t LogField::Find(const LogPoint& x) const {
  const auto found = std::lower_bound(at_.begin(), at_.end(), x);
  return found != at_.end() && *found == x ? static_cast<std::size_t>(found - at_.begin()) : kNone;
}

// Tests the bounding box of the points, which is cheaper than their hull.
bool LogField::Encloses(const LogPoint& x) const {
  for (std::size_t d = 0; d < dimensions_; ++d) {
    const auto [low, high] = std::minmax_element(
        at_.begin(), at_.end(), [d](const LogPoint& a, const LogPoint& b) { return a[d] < b[d]; });
    if (x[d] < (*low)[d] || x[d] > (*high)[d]) return false;
  }
  return true;
}

// Shepard's weights 1 / d^4 let the nearest points dominate.
double LogField::operator()(const LogPoint& x, std::size_t skip) const {
  if (dimensions_ == 1) return Between(x[0], skip);
  double sum = 0;
  double weights = 0;
  for (std::size_t i = 0; i < at_.size(); ++i) {
    if (i == skip) continue;
    const double squared = SquaredDistance(at_[i], x);
    if (squared == 0) return logs_[i];
    const double weight = 1 / (squared * squared);
    sum += weight * logs_[i];
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0.0;
}

// Linear between the neighbours on either side, constant outside.
double LogField::Between(double x, std::size_t skip) const {
  std::size_t below = kNone;
  std::size_t above = kNone;
  for (std::size_t i = 0; i < at_.size(); ++i) {
    if (i == skip) continue;
    if (at_[i][0] <= x) below = i;
    if (at_[i][0] >= x && above == kNone) above = i;
  }
  if (below == kNone && above == kNone) return 0.0;
  if (below == kNone) return logs_[above];
  if (above == kNone || above == below) return logs_[below];
  const double part = (x - at_[below][0]) / (at_[above][0] - at_[below][0]);
  return logs_[below] + part * (logs_[above] - logs_[below]);
}

// In one dimension the field holds log seconds; in more it holds the log of the ratio to the law,
// which varies little.
TimeSurface::TimeSurface(const std::vector<TimeSample>& samples, std::size_t dimensions)
    : dimensions_(dimensions) {
  FT_CHECK(!samples.empty());
  std::vector<LawTerms> rows;
  std::vector<double> seconds;
  for (const TimeSample& sample : samples) {
    rows.push_back(sample.terms);
    seconds.push_back(sample.seconds);
  }
  law_ = TimeLaw(rows, seconds);
  std::vector<LogPoint> at;
  std::vector<double> logs;
  for (const TimeSample& sample : samples) {
    at.push_back(sample.at);
    logs.push_back(
        std::log(dimensions == 1 ? sample.seconds : sample.seconds / law_(sample.terms)));
  }
  field_ = LogField(at, logs, dimensions);
  terms_.resize(field_.size());
  for (const TimeSample& sample : samples) terms_[field_.Find(sample.at)] = sample.terms;
  error_ = field_.size() == 1 ? kLoneSampleError : std::max(kSmallestError, LeaveOneOut());
}

// Outside the samples, one dimension continues from the nearest end in proportion to the law.
TimeSurface::Value TimeSurface::operator()(const LogPoint& at, const LawTerms& terms) const {
  Value value;
  const std::size_t exact = field_.Find(at);
  value.measured = exact != LogField::kNone;
  value.inside = value.measured || field_.Encloses(at);
  value.seconds = std::exp(value.measured ? field_.value(exact) : field_(at));
  if (dimensions_ > 1) {
    value.seconds *= law_(value.measured ? terms_[exact] : terms);
  } else if (!value.inside) {
    const std::size_t end = at[0] < field_.at(0)[0] ? 0 : field_.size() - 1;
    value.seconds *= law_(terms) / law_(terms_[end]);
  }
  return value;
}

// Predicts each sample from the others; the end points of one dimension are extrapolated by the
// law.
double TimeSurface::LeaveOneOut() const {
  double sum = 0;
  for (std::size_t i = 0; i < field_.size(); ++i) {
    double log = field_(field_.at(i), i);
    if (dimensions_ == 1 && (i == 0 || i + 1 == field_.size())) {
      const std::size_t end = i == 0 ? 1 : field_.size() - 2;
      log = field_.value(end) + std::log(law_(terms_[i]) / law_(terms_[end]));
    }
    const double missed = std::expm1(log - field_.value(i));
    sum += missed * missed;
  }
  return std::sqrt(sum / static_cast<double>(field_.size()));
}

}  // namespace foretrain

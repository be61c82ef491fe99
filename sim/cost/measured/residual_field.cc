#include "sim/cost/measured/residual_field.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/numeric/cholesky.h"
#include "base/result.h"

namespace foretrain {
namespace {

constexpr double kOutlier = 0.1;  // deviation at which a sample's weight is one half
constexpr int kReweightings = 3;
constexpr double kJitter = 1e-6;  // keeps the anchors' own matrix positive definite

double SquaredDistance(const FieldPoint& a, const FieldPoint& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kFieldDimensions; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double Kernel(const FieldPoint& a, const FieldPoint& b, double reach) {
  return std::exp(-std::sqrt(SquaredDistance(a, b)) / reach);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The weighted least squares problem (U^T W U + noise Q) weights = U^T W values, with U the kernel
// between samples and anchors and Q the kernel among anchors.
class Regression {
 public:
  Regression(std::span<const FieldPoint> points, const std::vector<FieldPoint>& anchors,
             double reach, double noise)
      : samples_(points.size()), count_(anchors.size()) {
    for (const FieldPoint& point : points) {
      for (const FieldPoint& anchor : anchors) rows_.push_back(Kernel(point, anchor, reach));
    }
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_; ++j) {
        own_.push_back(noise * (Kernel(anchors[i], anchors[j], reach) + (i == j ? kJitter : 0)));
      }
    }
  }

  std::span<const double> Row(std::size_t sample) const {
    return std::span(rows_).subspan(sample * count_, count_);
  }
  double At(std::size_t sample, const std::vector<double>& weights) const {
    const std::span<const double> row = Row(sample);
    double sum = 0;
    for (std::size_t j = 0; j < count_; ++j) sum += row[j] * weights[j];
    return sum;
  }

  Cholesky Factor(const std::vector<double>& trust) const {
    std::vector<double> matrix = own_;
    for (std::size_t s = 0; s < samples_; ++s) {
      const std::span<const double> row = Row(s);
      for (std::size_t i = 0; i < count_; ++i) {
        const double left = trust[s] * row[i];
        for (std::size_t j = 0; j <= i; ++j) matrix[i * count_ + j] += left * row[j];
      }
    }
    std::optional<Cholesky> factor = Cholesky::Of(std::move(matrix), count_);
    FT_CHECK(factor.has_value());  // the jitter makes it positive definite
    return *std::move(factor);
  }

  std::vector<double> Solve(const Cholesky& factor, const std::vector<double>& trust,
                            const std::vector<double>& values) const {
    std::vector<double> out(count_);
    for (std::size_t s = 0; s < samples_; ++s) {
      const std::span<const double> row = Row(s);
      for (std::size_t i = 0; i < count_; ++i) out[i] += trust[s] * values[s] * row[i];
    }
    factor.Solve(out);
    return out;
  }

 private:
  std::size_t samples_, count_;
  std::vector<double> rows_, own_;
};

// Leaving a group G out of a linear smoother with the matrix H changes its residuals r to
// (I - H_GG)^-1 r. The roots of the samples' weights make the matrix symmetric; the weights stay
// those of the whole fit.
std::vector<double> LeftOut(const Regression& regression, const Cholesky& factor,
                            const std::vector<double>& trust, std::span<const int> groups,
                            const std::vector<double>& residuals) {
  std::vector<double> out;
  for (std::size_t first = 0, last; first < groups.size(); first = last) {
    last = first;
    std::vector<std::vector<double>> half;  // L^-1 u sqrt(trust) of each sample
    std::vector<double> changed;
    for (; last < groups.size() && groups[last] == groups[first]; ++last) {
      const std::span<const double> row = regression.Row(last);
      half.emplace_back(row.begin(), row.end());
      factor.Forward(half.back());
      for (double& x : half.back()) x *= std::sqrt(trust[last]);
      changed.push_back(residuals[last] * std::sqrt(trust[last]));
    }
    const std::size_t n = half.size();
    std::vector<double> matrix(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        matrix[i * n + j] = (i == j ? 1 : 0) - std::inner_product(half[i].begin(), half[i].end(),
                                                                  half[j].begin(), 0.0);
      }
    }
    const std::optional<Cholesky> own = Cholesky::Of(std::move(matrix), n);
    FT_CHECK(own.has_value());  // leverages of a ridge regression are below 1
    own->Solve(changed);
    for (std::size_t i = 0; i < n; ++i) out.push_back(changed[i] / std::sqrt(trust[first + i]));
  }
  return out;
}

}  // namespace

double ResidualField::operator()(const FieldPoint& at) const {
  double sum = offset;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i] * Kernel(at, anchors[i], reach);
  }
  return sum;
}

FieldFit FitField(std::span<const FieldPoint> points, std::span<const double> values,
                  std::span<const int> groups, std::vector<FieldPoint> anchors, double reach,
                  double noise) {
  FT_CHECK(!points.empty() && points.size() == values.size() && points.size() == groups.size());
  FT_CHECK(reach > 0 && noise > 0);
  FieldFit out;
  out.field.offset = Median({values.begin(), values.end()});
  out.field.reach = reach;
  std::vector<double> centred(values.begin(), values.end());
  for (double& value : centred) value -= out.field.offset;
  const Regression regression(points, anchors, reach, noise);
  std::vector<double> trust(points.size(), 1.0), weights;
  std::optional<Cholesky> factor;
  for (int round = 0; round < kReweightings; ++round) {
    for (std::size_t s = 0; round > 0 && s < points.size(); ++s) {
      const double off = (centred[s] - regression.At(s, weights)) / kOutlier;
      trust[s] = 1 / (1 + off * off);
    }
    factor = regression.Factor(trust);
    weights = regression.Solve(*factor, trust, centred);
  }
  std::vector<double> residuals;
  for (std::size_t s = 0; s < points.size(); ++s) {
    residuals.push_back(centred[s] - regression.At(s, weights));
  }
  out.left_out = LeftOut(regression, *factor, trust, groups, residuals);
  out.field.anchors = std::move(anchors);
  out.field.weights = std::move(weights);
  return out;
}

std::vector<std::size_t> SpreadPoints(std::span<const FieldPoint> points, std::size_t count) {
  std::vector<std::size_t> out;
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  std::size_t next = 0;
  while (out.size() < std::min(count, points.size()) && nearest[next] > 0) {
    out.push_back(next);
    for (std::size_t i = 0; i < points.size(); ++i) {
      nearest[i] = std::min(nearest[i], SquaredDistance(points[i], points[out.back()]));
    }
    next = static_cast<std::size_t>(std::max_element(nearest.begin(), nearest.end()) -
                                    nearest.begin());
  }
  return out;
}

}  // namespace foretrain

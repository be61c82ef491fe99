// Times between measured sizes: a law with non-negative terms fitted to all points, and its
// residuals interpolated in logarithms. Leaves out ops and devices.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace foretrain {

inline constexpr std::size_t kLawTerms = 5;
using LawTerms = std::array<double, kLawTerms>;  // >= 0; terms that a law lacks are 0

// seconds = sum of coefficient * term. The coefficients are >= 0 and minimize the sum of squared
// relative errors, so the law grows with each term. All sets of terms (at most 31) are tried, and
// the best with all coefficients positive is kept. On a tie the set with earlier terms wins.
class TimeLaw {
 public:
  TimeLaw() = default;
  // At least one row; seconds > 0. O(rows).
  TimeLaw(const std::vector<LawTerms>& rows, const std::vector<double>& seconds);

  double operator()(const LawTerms& terms) const;

 private:
  LawTerms coefficients_{};
};

inline constexpr std::size_t kMaxDimensions = 3;
// Logarithms of sizes; unused dimensions are 0.
using LogPoint = std::array<double, kMaxDimensions>;

// Logarithms of positive values at known points. The field is exact at the points; between them it
// stays within its neighbours' range. One dimension: linear between two neighbours, constant
// outside. Two and three: weighted by the inverse fourth power of the distance [1].
// [1] Shepard 1968
class LogField {
 public:
  LogField() = default;
  // Values at equal points are averaged. `dimensions` is in [1, 3].
  LogField(std::vector<LogPoint> at, std::vector<double> logs, std::size_t dimensions);

  bool empty() const { return at_.empty(); }
  std::size_t size() const { return at_.size(); }
  const LogPoint& at(std::size_t i) const { return at_[i]; }
  double value(std::size_t i) const { return logs_[i]; }

  // `skip` leaves one point out, to judge the others. O(points).
  double operator()(const LogPoint& x, std::size_t skip = kNone) const;
  // Index of the point exactly at x, or kNone.
  std::size_t Find(const LogPoint& x) const;
  // True if x lies within the bounding box of the points.
  bool Encloses(const LogPoint& x) const;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

 private:
  double Between(double x, std::size_t skip) const;

  std::vector<LogPoint> at_;  // sorted
  std::vector<double> logs_;
  std::size_t dimensions_ = 1;
};

// One measured time, with its position and the law's terms there.
struct TimeSample {
  LogPoint at{};
  LawTerms terms{};
  double seconds = 0;  // > 0
};

// Times of one kind of op over its sizes; passes through all samples. In one dimension the time is
// linear in logarithms between two samples and follows the law outside. In more, it is the law
// times an interpolated factor.
class TimeSurface {
 public:
  TimeSurface() = default;
  // At least one sample.
  TimeSurface(const std::vector<TimeSample>& samples, std::size_t dimensions);

  struct Value {
    double seconds = 0;
    bool measured = false;  // a sample lies there
    bool inside = false;    // within the samples' bounding box
  };
  Value operator()(const LogPoint& at, const LawTerms& terms) const;

  // Expected relative error between samples, one standard deviation, from predicting each sample
  // from the others. At least 1 %; 0.25 with a single sample.
  double error() const { return error_; }
  // Seconds of the law alone.
  double LawAt(const LawTerms& terms) const { return law_(terms); }

 private:
  double LeaveOneOut() const;

  std::size_t dimensions_ = 1;
  TimeLaw law_;
  LogField field_;               // one dimension: log seconds; more: log of seconds / law
  std::vector<LawTerms> terms_;  // at the field's points
  double error_ = 0.25;
};

}  // namespace foretrain

// Times between measured sizes: a law of non-negative terms through all points, and what it misses
// interpolated in logarithms. Leaves out ops and devices.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace foretrain {

inline constexpr std::size_t kLawTerms = 5;
using LawTerms = std::array<double, kLawTerms>;  // >= 0; terms that a law does not have are 0

// seconds = sum of coefficient * term, with coefficients >= 0 that make the sum of squared relative
// errors least. So it grows with each of its terms. Found by trying all sets of terms (31 at most)
// and keeping the best whose coefficients are all positive; of equal ones the set with earlier
// terms.
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
using LogPoint = std::array<double, kMaxDimensions>;  // logarithms of sizes; unused ones are 0

// Logarithms of positive values known at points. Exact at the points and within the range of its
// neighbours between them. One dimension: straight between two neighbours, flat outside. Two and
// three: weighted with the inverse fourth power of the distance [1].
// [1] Shepard 1968
class LogField {
 public:
  LogField() = default;
  // Values at equal points are averaged. `dimensions` in [1, 3].
  LogField(std::vector<LogPoint> at, std::vector<double> logs, std::size_t dimensions);

  bool empty() const { return at_.empty(); }
  std::size_t size() const { return at_.size(); }
  const LogPoint& at(std::size_t i) const { return at_[i]; }
  double value(std::size_t i) const { return logs_[i]; }

  // `skip`: a point that is left out, for judging the others. O(points).
  double operator()(const LogPoint& x, std::size_t skip = kNone) const;
  // The number of the point that lies exactly at x, or kNone.
  std::size_t Find(const LogPoint& x) const;
  // Whether x is within the smallest box around the points.
  bool Encloses(const LogPoint& x) const;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

 private:
  double Between(double x, std::size_t skip) const;

  std::vector<LogPoint> at_;  // sorted
  std::vector<double> logs_;
  std::size_t dimensions_ = 1;
};

// One measured time: where it lies, and the terms of the law there.
struct TimeSample {
  LogPoint at{};
  LawTerms terms{};
  double seconds = 0;  // > 0
};

// Times of one kind of op over its sizes. Passes through all samples. In one dimension the time is
// a straight line in logarithms between two samples, so that it grows where they do, and follows
// the law outside; in more it is the law times a factor that is interpolated between the samples.
class TimeSurface {
 public:
  TimeSurface() = default;
  // At least one sample.
  TimeSurface(const std::vector<TimeSample>& samples, std::size_t dimensions);

  struct Value {
    double seconds = 0;
    bool measured = false;  // a sample lies there
    bool inside = false;    // within the box around the samples
  };
  Value operator()(const LogPoint& at, const LawTerms& terms) const;

  // Relative error to be expected between samples, one standard deviation: each sample predicted
  // from the others. At least 1 %; 0.25 where there is one sample.
  double error() const { return error_; }

 private:
  double LeaveOneOut() const;

  std::size_t dimensions_ = 1;
  TimeLaw law_;
  LogField field_;               // one dimension: log seconds; more: log of seconds / law
  std::vector<LawTerms> terms_;  // at the field's points
  double error_ = 0.25;
};

}  // namespace foretrain

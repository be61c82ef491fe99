// Unions of time intervals in integer nanoseconds, the basis of all time metrics.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain {

// [start_ns, end_ns); empty if end_ns <= start_ns.
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  bool operator==(const Interval&) const = default;
};

// A union of intervals: sorted, disjoint, not touching, none empty. Times lie within +-2^60.
class IntervalSet {
 public:
  IntervalSet() = default;

  // The union of `intervals`, in any order; empty ones are allowed. O(n) if sorted by start, else
  // O(n log n).
  explicit IntervalSet(std::vector<Interval> intervals);

  const std::vector<Interval>& intervals() const { return intervals_; }
  bool empty() const { return intervals_.empty(); }

  // Total time covered.
  std::int64_t Length() const { return before_.empty() ? 0 : before_.back(); }

  // Time covered inside [start_ns, end_ns). O(log n).
  std::int64_t LengthIn(std::int64_t start_ns, std::int64_t end_ns) const;

  // Union of both sets. O(n + m).
  IntervalSet United(const IntervalSet& other) const;

  // The maximal gaps of the set inside [start_ns, end_ns), in order. O(log n + gaps).
  std::vector<Interval> GapsIn(std::int64_t start_ns, std::int64_t end_ns) const;

 private:
  void SumLengths();

  // Time covered before `time_ns`.
  std::int64_t LengthBefore(std::int64_t time_ns) const;

  std::vector<Interval> intervals_;
  std::vector<std::int64_t> before_;  // before_[i]: total length of intervals 0 to i
};

}  // namespace foretrain

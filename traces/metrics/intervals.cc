#include "traces/metrics/intervals.h"

#include <algorithm>
#include <cstddef>

namespace foretrain {
namespace {

bool StartsBefore(const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; }

// Appends `next`, which starts no earlier than the last of `merged`; touching intervals become one.
void AppendMerged(std::vector<Interval>& merged, const Interval& next) {
  if (next.end_ns <= next.start_ns) return;
  if (!merged.empty() && next.start_ns <= merged.back().end_ns) {
    merged.back().end_ns = std::max(merged.back().end_ns, next.end_ns);
  } else {
    merged.push_back(next);
  }
}

}  // namespace

// O(n log n), or O(n) if the intervals are sorted, as the spans of one queue are. The result is
// sorted and disjoint, on which all queries rely.
IntervalSet::IntervalSet(std::vector<Interval> intervals) {
  if (!std::is_sorted(intervals.begin(), intervals.end(), StartsBefore)) {
    std::sort(intervals.begin(), intervals.end(), StartsBefore);
  }
  intervals_.reserve(intervals.size());
  for (const Interval& interval : intervals) AppendMerged(intervals_, interval);
  SumLengths();
}

// Prefix sums of lengths make LengthIn two binary searches.
void IntervalSet::SumLengths() {
  before_.resize(intervals_.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < intervals_.size(); ++i) {
    sum += intervals_[i].end_ns - intervals_[i].start_ns;
    before_[i] = sum;
  }
}

// The last interval that starts by then may extend past `time_ns`: that part is subtracted.
std::int64_t IntervalSet::LengthBefore(std::int64_t time_ns) const {
  const auto next = std::upper_bound(
      intervals_.begin(), intervals_.end(), time_ns,
      [](std::int64_t time, const Interval& interval) { return time < interval.start_ns; });
  if (next == intervals_.begin()) return 0;
  const auto last = static_cast<std::size_t>(next - intervals_.begin()) - 1;
  return before_[last] - std::max<std::int64_t>(0, intervals_[last].end_ns - time_ns);
}

std::int64_t IntervalSet::LengthIn(std::int64_t start_ns, std::int64_t end_ns) const {
  return end_ns <= start_ns ? 0 : LengthBefore(end_ns) - LengthBefore(start_ns);
}

// A merge of two sorted lists; AppendMerged joins overlapping neighbours.
IntervalSet IntervalSet::United(const IntervalSet& other) const {
  IntervalSet result;
  result.intervals_.reserve(intervals_.size() + other.intervals_.size());
  auto a = intervals_.begin();
  auto b = other.intervals_.begin();
  while (a != intervals_.end() || b != other.intervals_.end()) {
    const bool take_a =
        b == other.intervals_.end() || (a != intervals_.end() && a->start_ns <= b->start_ns);
    AppendMerged(result.intervals_, take_a ? *a++ : *b++);
  }
  result.SumLengths();
  return result;
}

// Starts at the first interval that ends after the window's start.
std::vector<Interval> IntervalSet::GapsIn(std::int64_t start_ns, std::int64_t end_ns) const {
  std::vector<Interval> gaps;
  std::int64_t from = start_ns;
  auto next = std::upper_bound(
      intervals_.begin(), intervals_.end(), start_ns,
      [](std::int64_t time, const Interval& interval) { return time < interval.end_ns; });
  for (; next != intervals_.end() && next->start_ns < end_ns; ++next) {
    if (next->start_ns > from) gaps.push_back({from, next->start_ns});
    from = next->end_ns;
  }
  if (from < end_ns) gaps.push_back({from, end_ns});
  return gaps;
}

}  // namespace foretrain

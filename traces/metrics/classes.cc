#include "traces/metrics/classes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/result.h"
#include "traces/save_spans.h"

namespace foretrain {

// Builds the unions by class, and their prefix unions C0, C0 u C1, ...: differences of prefix
// lengths are the exclusive classes, so they add up to the window exactly.
RankClasses::RankClasses(std::span<const Span> spans) {
  std::array<std::vector<Interval>, kOpClassCount> intervals;
  std::array<std::size_t, kOpClassCount> counts{};
  for (const Span& span : spans) {
    if (!IsSave(span.op)) ++counts[static_cast<std::size_t>(span.op_class)];
  }
  for (std::size_t c = 0; c < intervals.size(); ++c) intervals[c].reserve(counts[c]);
  for (const Span& span : spans) {
    if (IsSave(span.op)) continue;
    intervals[static_cast<std::size_t>(span.op_class)].push_back({span.start_ns, span.end_ns});
  }
  for (std::size_t c = 0; c < own_.size(); ++c) {
    own_[c] = IntervalSet(std::move(intervals[c]));
    cumulative_[c] = c == 0 ? own_[c] : cumulative_[c - 1].United(own_[c]);
    if (IsCommunication(static_cast<OpClass>(c))) communication_ = communication_.United(own_[c]);
  }
}

const IntervalSet& RankClasses::Cumulative(OpClass c) const {
  return cumulative_[static_cast<std::size_t>(c)];
}

// All classes but host, which is the last.
const IntervalSet& RankClasses::DeviceBusy() const { return Cumulative(OpClass::kCopy); }

// The prefix unions end at memory_bound (compute), pp_comm (communication), copy and host: the
// order of OpClass fixes which class wins where spans overlap.
ClassTimes RankClasses::In(std::int64_t start_ns, std::int64_t end_ns) const {
  FT_CHECK(start_ns <= end_ns);
  const std::int64_t compute = Cumulative(OpClass::kMemoryBound).LengthIn(start_ns, end_ns);
  const std::int64_t communicating = Cumulative(OpClass::kPpComm).LengthIn(start_ns, end_ns);
  const std::int64_t device = DeviceBusy().LengthIn(start_ns, end_ns);
  const std::int64_t any = Cumulative(OpClass::kHost).LengthIn(start_ns, end_ns);
  const ClassTimes times{.compute_ns = compute,
                         .exposed_communication_ns = communicating - compute,
                         .exposed_copy_ns = device - communicating,
                         .host_ns = any - device,
                         .idle_ns = end_ns - start_ns - any};
  FT_CHECK(times.exposed_communication_ns >= 0 && times.exposed_copy_ns >= 0);
  FT_CHECK(times.host_ns >= 0 && times.idle_ns >= 0);
  FT_CHECK(times.Sum() == end_ns - start_ns);
  return times;
}

std::array<std::int64_t, kOpClassCount> RankClasses::ExclusiveIn(std::int64_t start_ns,
                                                                 std::int64_t end_ns) const {
  std::array<std::int64_t, kOpClassCount> result{};
  std::int64_t before = 0;
  for (std::size_t c = 0; c < result.size(); ++c) {
    const std::int64_t upto = cumulative_[c].LengthIn(start_ns, end_ns);
    result[c] = upto - before;
    before = upto;
  }
  return result;
}

std::array<std::int64_t, kOpClassCount> RankClasses::BusyIn(std::int64_t start_ns,
                                                            std::int64_t end_ns) const {
  std::array<std::int64_t, kOpClassCount> result{};
  for (std::size_t c = 0; c < result.size(); ++c) result[c] = own_[c].LengthIn(start_ns, end_ns);
  return result;
}

std::int64_t RankClasses::CommunicationIn(std::int64_t start_ns, std::int64_t end_ns) const {
  return communication_.LengthIn(start_ns, end_ns);
}

std::optional<double> RankClasses::OverlapIn(std::int64_t start_ns, std::int64_t end_ns) const {
  const std::int64_t communication = CommunicationIn(start_ns, end_ns);
  if (communication == 0) return std::nullopt;
  // Inclusion and exclusion: |C n N| = |C| + |N| - |C u N|.
  const std::int64_t both = Cumulative(OpClass::kMemoryBound).LengthIn(start_ns, end_ns) +
                            communication - Cumulative(OpClass::kPpComm).LengthIn(start_ns, end_ns);
  return static_cast<double>(both) / static_cast<double>(communication);
}

std::span<const Span> SpansOfRank(const Timeline& timeline, int rank) {
  const auto [first, last] = std::equal_range(
      timeline.spans.begin(), timeline.spans.end(), Span{.rank = static_cast<std::int16_t>(rank)},
      [](const Span& a, const Span& b) { return a.rank < b.rank; });
  return {first, last};
}

}  // namespace foretrain

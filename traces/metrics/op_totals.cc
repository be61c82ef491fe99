#include "traces/metrics/op_totals.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <tuple>

#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// Sort key of a span: small, so that sorting moves little memory.
struct Key {
  OpId op = kNoOp;
  std::int32_t step = 0;
  std::uint32_t span = 0;
};

// Spans without an op have no total. The comparison looks at a span only if step and op are equal.
std::vector<Key> SortedKeys(std::span<const Span> spans) {
  std::vector<Key> keys;
  keys.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].op == kNoOp) continue;
    keys.push_back({spans[i].op, spans[i].step, static_cast<std::uint32_t>(i)});
  }
  const auto key_of = [&spans](const Key& key) {
    const Span& span = spans[key.span];
    // Launches sort last, and spans of one op by start.
    return std::tuple(key.step, key.op, span.op_class == OpClass::kHost, span.start_ns, key.span);
  };
  std::sort(keys.begin(), keys.end(), [&key_of](const Key& a, const Key& b) {
    if (a.step != b.step) return a.step < b.step;
    if (a.op != b.op) return a.op < b.op;
    return key_of(a) < key_of(b);
  });
  return keys;
}

// A total starts with its first span's facts and an empty union.
OpTotal FirstOf(const Span& span) {
  return {.op = span.op,
          .start_ns = span.start_ns,
          .end_ns = span.start_ns,
          .ready_ns = span.ready_ns,
          .step = span.step,
          .rank = span.rank,
          .queue = span.queue,
          .op_class = span.op_class};
}

// Spans of an op arrive by start: only the part after all earlier ends adds to the union. Bytes
// saturate, because they may come from a file.
void AddSpan(const Span& span, OpTotal& total) {
  const std::int64_t from = std::max(span.start_ns, total.end_ns);
  total.busy_ns += std::max<std::int64_t>(0, span.end_ns - from);
  total.end_ns = std::max(total.end_ns, span.end_ns);
  if (__builtin_add_overflow(total.bytes, span.bytes, &total.bytes)) total.bytes = kMax;
  ++total.spans;
}

}  // namespace

// Keys are sorted instead of spans, and each rank is handled by itself to bound the memory.
std::vector<OpTotal> OpTotals(const Timeline& timeline) {
  std::vector<OpTotal> totals;
  for (std::size_t i = 0; i < timeline.spans.size();) {
    const std::span<const Span> spans = SpansOfRank(timeline, timeline.spans[i].rank);
    i += spans.size();
    const std::size_t first_of_rank = totals.size();
    for (const Key& key : SortedKeys(spans)) {
      const Span& span = spans[key.span];
      const bool is_new = totals.size() == first_of_rank || totals.back().op != key.op ||
                          totals.back().step != key.step;
      if (is_new) totals.push_back(FirstOf(span));
      const bool launch =
          span.op_class == OpClass::kHost && totals.back().op_class != OpClass::kHost;
      if (!launch) AddSpan(span, totals.back());
    }
  }
  return totals;
}

}  // namespace foretrain

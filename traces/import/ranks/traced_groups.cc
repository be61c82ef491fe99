#include "traces/import/ranks/traced_groups.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "traces/import/ranks/rank_join.h"

namespace foretrain::trace_import {

TracedCommunication CommunicationOf(const std::vector<RankEvents>& ranks, const OpTable& table,
                                    const std::vector<RankTimeline>& timelines) {
  TracedCommunication out;
  std::map<std::tuple<OpClass, std::string, std::string, std::int64_t>, std::int32_t> known;
  // The number of a rank's group and class, which is added if it is new.
  const auto number_of = [&](const RawGroup& group, OpClass op_class) {
    const auto [at, is_new] =
        known.try_emplace({op_class, group.description, group.ranks, group.size},
                          static_cast<std::int32_t>(out.groups.size()));
    if (!is_new) return at->second;
    std::vector<int> members = RanksIn(group.ranks);
    const std::int64_t size = group.size > 0 ? group.size : std::ssize(members);
    out.groups.push_back({.op_class = op_class,
                          .described = table.Find(NamePlace::kGroup, group.description).has_value(),
                          .description = group.description,
                          .ranks = std::move(members),
                          .size = size});
    return at->second;
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::size_t first = out.calls.size();
    std::map<std::pair<std::uint32_t, OpClass>, std::int32_t> numbers;  // of this rank's groups
    for (const GroupedSpan& grouped : timelines[r].grouped) {
      const Span& span = timelines[r].spans[grouped.span];
      const RawGroup& group = ranks[r].groups[grouped.group];
      const auto [number, is_new] = numbers.try_emplace({grouped.group, span.op_class});
      if (is_new) number->second = number_of(group, span.op_class);
      const std::int64_t peer = group.source == span.rank ? group.destination : group.source;
      out.calls.push_back(
          {.group = number->second,
           .step = span.step,
           .start_ns = span.start_ns,
           .bytes = span.bytes,
           .rank = span.rank,
           .peer = static_cast<std::int16_t>(peer >= 0 && peer < kMaxImportedRanks ? peer : -1),
           .kind = UnpackId(span.op).kind});
    }
    std::stable_sort(
        out.calls.begin() + static_cast<std::ptrdiff_t>(first), out.calls.end(),
        [](const TracedCall& a, const TracedCall& b) { return a.start_ns < b.start_ns; });
  }
  return out;
}

}  // namespace foretrain::trace_import

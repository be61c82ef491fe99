#include "traces/import/kineto/gloo_calls.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrain::trace_import {
namespace {

// Operators of the host whose name begins so, by start.
std::vector<RawEvent*> OperatorsNamed(RankEvents& events, std::string_view begin) {
  std::vector<RawEvent*> found;
  for (RawEvent& event : events.events) {
    const bool is_operator = event.kind == RawKind::kHostOp;
    if (is_operator && events.names.Text(event.name).starts_with(begin)) found.push_back(&event);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const RawEvent* a, const RawEvent* b) { return a->start_ns < b->start_ns; });
  return found;
}

// Events on the track of an annotation, and within its time.
void RemoveParts(RankEvents& events, const std::vector<RawEvent*>& annotations) {
  std::map<std::uint32_t, std::vector<std::pair<std::int64_t, std::int64_t>>> times;  // by track
  for (const RawEvent* const annotation : annotations) {
    times[annotation->track].emplace_back(annotation->start_ns, annotation->end_ns);
  }
  std::erase_if(events.events, [&](const RawEvent& event) {
    const auto of_track = times.find(event.track);
    if (of_track == times.end() || event.kind == RawKind::kRange) return false;
    const std::pair time(event.start_ns, event.end_ns);
    auto at = std::upper_bound(of_track->second.begin(), of_track->second.end(),
                               std::pair(event.start_ns, std::numeric_limits<std::int64_t>::max()));
    if (at == of_track->second.begin()) return false;
    --at;
    return *at != time && event.end_ns <= at->second;
  });
}

// "[0, 1, 2]".
RawGroup GroupOfAll(int world) {
  RawGroup group{.description = "default_pg", .name = "0", .ranks = "["};
  for (int rank = 0; rank < world; ++rank) {
    group.ranks += (rank == 0 ? "" : ", ") + std::to_string(rank);
  }
  group.ranks += "]";
  group.size = world;
  return group;
}

}  // namespace

void JoinGlooCalls(RankEvents& events, bool only_group) {
  constexpr int kMaxListed = 4096;
  if (OperatorsNamed(events, "gloo:").empty()) return;
  RemoveParts(events, OperatorsNamed(events, "gloo:"));
  const std::vector<RawEvent*> annotations = OperatorsNamed(events, "gloo:");
  if (only_group && events.world.value_or(0) > 1 && *events.world <= kMaxListed) {
    const std::uint32_t group = events.GroupOf(GroupOfAll(*events.world));
    for (RawEvent* const annotation : annotations) annotation->group = group;
  }
  const std::vector<RawEvent*> operators = OperatorsNamed(events, "c10d::");
  const bool match =
      std::equal(operators.begin(), operators.end(), annotations.begin(), annotations.end(),
                 [](const RawEvent* op, const RawEvent* annotation) {
                   return op->start_ns <= annotation->start_ns;
                 });
  if (!match) return;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    annotations[i]->collective = 1 + operators[i]->name;
    operators[i]->kind = RawKind::kCall;
  }
}

}  // namespace foretrain::trace_import

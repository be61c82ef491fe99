#include "traces/import/ranks/rank_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain::trace_import {
namespace {

// Files of one job are written within an hour. If first events lie further apart, the clocks
// differ.
constexpr std::int64_t kOneClockNs = 3600LL * 1'000'000'000;

// Time of the rank's first event or sample.
std::int64_t FirstNs(const RankEvents& rank) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const RawEvent& event : rank.events) first = std::min(first, event.start_ns);
  for (const MemorySample& sample : rank.memory) first = std::min(first, sample.time_ns);
  return first;
}

void Align(const ClockFit& fit, RankTimeline& timeline) {
  for (Span& span : timeline.spans) {
    span.start_ns = fit.Aligned(span.start_ns);
    span.end_ns = fit.Aligned(span.end_ns);
    span.ready_ns = fit.Aligned(span.ready_ns);
  }
  for (StepWindow& step : timeline.steps) {
    step.start_ns = fit.Aligned(step.start_ns);
    step.end_ns = fit.Aligned(step.end_ns);
  }
  for (MemorySample& sample : timeline.memory) sample.time_ns = fit.Aligned(sample.time_ns);
}

// Aligned clocks may have moved the first event.
void BeginAtZero(std::vector<RankTimeline>& timelines) {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  for (const RankTimeline& timeline : timelines) {
    for (const Span& span : timeline.spans) first_ns = std::min(first_ns, span.start_ns);
    for (const StepWindow& step : timeline.steps) first_ns = std::min(first_ns, step.start_ns);
    for (const MemorySample& sample : timeline.memory)
      first_ns = std::min(first_ns, sample.time_ns);
  }
  for (RankTimeline& timeline : timelines) Align({.offset_ns = first_ns}, timeline);
}

}  // namespace

std::vector<int> RanksIn(std::string_view list) {
  std::vector<int> ranks;
  if (!list.starts_with('[') || !list.ends_with(']')) return ranks;
  for (const std::string_view part : Split(list.substr(1, list.size() - 2), ',')) {
    const auto rank = ParseInt("rank", Trim(part), 0, kMaxImportedRanks - 1);
    if (!rank.has_value()) return {};
    ranks.push_back(static_cast<int>(*rank));
  }
  return ranks;
}

Result<std::vector<int>> NumberRanks(const std::vector<RankEvents>& ranks,
                                     std::vector<std::string>& notes) {
  std::set<int> said;
  bool all = true;
  for (const RankEvents& rank : ranks) all = all && rank.rank && said.insert(*rank.rank).second;
  std::vector<int> numbers;
  for (const RankEvents& rank : ranks) {
    numbers.push_back(all ? *rank.rank : static_cast<int>(numbers.size()));
    if (numbers.back() < kMaxImportedRanks) continue;
    return Fail(ErrorCode::kInvalidArgument,
                rank.source + ": rank " + std::to_string(numbers.back()) + "; ranks below " +
                    std::to_string(kMaxImportedRanks) + " can be imported");
  }
  if (all || ranks.size() < 2) return numbers;
  std::string note = said.empty()
                         ? "the traces do not say their ranks: they are numbered in order"
                         : "the traces do not say different ranks: they are numbered in order";
  for (std::size_t i = 0; i < ranks.size() && i < 16; ++i) {
    note += (i == 0 ? " (rank " : ", rank ") + std::to_string(i) + " " + ranks[i].source;
  }
  notes.push_back(note + (ranks.size() > 16 ? ", ...)" : ")"));
  return numbers;
}

std::vector<std::int64_t> OffsetsOf(const std::vector<RankEvents>& ranks,
                                    std::vector<std::string>& notes) {
  std::vector<std::int64_t> firsts;
  for (const RankEvents& rank : ranks) firsts.push_back(rank.base_ns + FirstNs(rank));
  const auto [min, max] = std::minmax_element(firsts.begin(), firsts.end());
  const bool one_clock = *max - *min <= kOneClockNs;
  if (!one_clock) {
    notes.push_back(
        "the traces' clocks are more than an hour apart: each rank begins with its own first "
        "event");
  }
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    offsets.push_back(ranks[i].base_ns - (one_clock ? *min : firsts[i]));
  }
  return offsets;
}

std::vector<Pipeline> PipelinesOfGroups(const std::vector<RankEvents>& ranks,
                                        const OpTable& table) {
  std::set<Pipeline> found;
  for (const RankEvents& rank : ranks) {
    for (const RawGroup& group : rank.groups) {
      const auto meaning = table.Find(NamePlace::kGroup, group.description);
      if (!meaning || meaning->op_class != OpClass::kPpComm) continue;
      Pipeline pipeline = RanksIn(group.ranks);
      if (pipeline.size() > 1) found.insert(std::move(pipeline));
    }
  }
  return {found.begin(), found.end()};
}

bool JoinRanks(const std::vector<int>& numbers, std::vector<RankTimeline>& timelines,
               std::vector<std::string>& notes) {
  std::vector<TracedRank> ranks;
  std::size_t calls = 0, matched = 0, spans = 0;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    calls += timelines[i].calls.size();
    spans += static_cast<std::size_t>(
        std::count_if(timelines[i].spans.begin(), timelines[i].spans.end(),
                      [](const Span& span) { return IsCommunication(span.op_class); }));
    ranks.push_back({numbers[i], &timelines[i].spans, std::move(timelines[i].calls)});
  }
  const std::vector<Match> matches = MatchCalls(ranks);
  if (matches.empty()) return false;
  const std::vector<ClockFit> fits = FitClocks(ranks, matches);
  std::int64_t farthest_ns = 0, error_ns = 0;
  int moved = 0;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    if (!fits[i].IsUsed()) continue;
    Align(fits[i], timelines[i]);
    ++moved;
    farthest_ns = std::max(farthest_ns, std::abs(fits[i].offset_ns));
    error_ns = std::max(error_ns, fits[i].error_ns);
  }
  if (moved > 0) {
    BeginAtZero(timelines);
    notes.push_back(fmt::format(
        "the clocks of {} rank{} were aligned by communication: moved by up to {}, error {}", moved,
        moved == 1 ? "" : "s", FormatSeconds(SecondsFromNs(farthest_ns)),
        FormatSeconds(SecondsFromNs(error_ns))));
  }
  SplitWaits(ranks, matches);
  for (const Match& match : matches) matched += match.calls.size();
  notes.push_back(fmt::format(
      "{} of {} calls of communication were matched across ranks: their waits for peers are idle "
      "time, not communication",
      matched, calls));
  return matched == spans;
}

bool IsAllMatched(const std::string& details_json) {
  const auto details = ParseJson(details_json, "details");
  if (!details.has_value()) return false;
  const JsonValue* const matched = details->Find("communication_matched");
  return matched != nullptr && matched->kind() == JsonValue::Kind::kBool && matched->AsBool();
}

}  // namespace foretrain::trace_import

#include "ui/view_model/runs/sides.h"

#include <algorithm>

#include "ui/view_model/runs/long_runs.h"

namespace foretrain::ui {
namespace {

const RunView* RunOf(const CompareInput& input, Side side) {
  const std::optional<RunView>& run = side == Side::kPredicted ? input.predicted : input.measured;
  return run.has_value() ? &*run : nullptr;
}

std::vector<std::int32_t> StepsOf(const Timeline& timeline) {
  std::vector<std::int32_t> steps;
  for (const StepWindow& window : timeline.steps) steps.push_back(window.step);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

void PlaceStep(SideModel& side) {
  bool first = true;
  for (const StepWindow& window : side.run->timeline.steps) {
    if (window.step != side.step) continue;
    side.step_start_ns = first ? window.start_ns : std::min(side.step_start_ns, window.start_ns);
    side.step_end_ns = first ? window.end_ns : std::max(side.step_end_ns, window.end_ns);
    side.step_ns = std::max(side.step_ns, window.end_ns - window.start_ns);
    first = false;
  }
}

// An unknown or missing step selects the median one, which Metrics::overall describes.
SideModel SideOf(const RunView* run, const Metrics* metrics, std::optional<std::int32_t> step) {
  SideModel side;
  if (run == nullptr) return side;
  side.run = run;
  side.metrics = metrics;
  side.steps = StepsOf(run->timeline);
  const bool known =
      step.has_value() && std::binary_search(side.steps.begin(), side.steps.end(), *step);
  if (known) {
    side.step = *step;
  } else if (metrics->overall.has_value()) {
    side.step = metrics->overall->step;
  }
  PlaceStep(side);
  side.offset_ns = side.step_start_ns;
  return side;
}

std::vector<OpTotal> TotalsOn(const SidePair& sides, Side side) {
  if (!sides.Of(side).IsPresent()) return {};
  return OpTotalsOfStep(sides.TimelineOf(side), sides.Of(side).step);
}

}  // namespace

CompareFacts FactsOf(const CompareInput& input) {
  CompareFacts facts;
  for (const Side side : kSides) {
    const RunView* run = RunOf(input, side);
    if (run == nullptr) continue;
    facts.metrics[Index(side)] = std::make_shared<const Metrics>(MetricsOfRun(*run));
  }
  return facts;
}

// A forecast of representatives maps each rank to the simulated one; a full forecast maps it to
// itself.
int SidePair::RankOn(Side side, int rank) const {
  const RunView* run = Of(side).run;
  const auto place = static_cast<std::size_t>(rank);
  if (run == nullptr || place >= run->stands_for_rank.size()) return rank;
  return run->stands_for_rank[place];
}

SidePair SidesOf(const CompareInput& input, const CompareFacts& facts, const ChosenSteps& chosen) {
  SidePair pair{.facts = facts};
  for (const Side side : kSides) {
    const std::size_t i = Index(side);
    pair.sides[i] = SideOf(RunOf(input, side), facts.metrics[i].get(), chosen.steps[i]);
  }
  return pair;
}

// Spans are sorted by rank, so a binary search skips from rank to rank. A long run lists its ranks
// in its sums.
std::vector<int> RanksOf(const SidePair& sides) {
  std::vector<int> ranks;
  if (!sides.Of(sides.Shown()).IsPresent()) return ranks;
  if (const SpanSums* const sums = sides.Of(sides.Shown()).run->sums.get()) {
    for (const TrackSums& track : sums->tracks) {
      if (ranks.empty() || ranks.back() != track.rank) ranks.push_back(track.rank);
    }
    return ranks;
  }
  const std::vector<Span>& spans = sides.TimelineOf(sides.Shown()).spans;
  for (auto at = spans.begin(); at != spans.end();) {
    ranks.push_back(at->rank);
    at = std::partition_point(at, spans.end(),
                              [&](const Span& span) { return span.rank <= ranks.back(); });
  }
  if (!ranks.empty()) return ranks;
  // A snapshot of memory has samples alone, sorted by rank too.
  const std::vector<MemorySample>& samples = sides.TimelineOf(sides.Shown()).memory;
  for (auto at = samples.begin(); at != samples.end();) {
    ranks.push_back(at->rank);
    at = std::partition_point(
        at, samples.end(), [&](const MemorySample& sample) { return sample.rank <= ranks.back(); });
  }
  return ranks;
}

std::vector<PairedOp> PairsOf(const SidePair& sides) {
  const bool both = sides.HasBoth();
  return PairOps(TotalsOn(sides, Side::kPredicted), TotalsOn(sides, Side::kMeasured),
                 both ? std::span<const int>(sides.Of(Side::kPredicted).run->stands_for_rank)
                      : std::span<const int>());
}

}  // namespace foretrain::ui

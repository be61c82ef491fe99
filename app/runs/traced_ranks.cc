#include "app/runs/traced_ranks.h"

#include <algorithm>
#include <vector>

#include "sim/program/lower/rank/rank_class.h"

namespace foretrain {
namespace {

// Appends the items of rank `from`, as those of rank `to`.
template <typename Item>
void CopyRank(int from, int to, std::vector<Item>& items) {
  std::vector<Item> copies;
  for (const Item& item : items) {
    if (item.rank != from) continue;
    copies.push_back(item);
    copies.back().rank = static_cast<std::int16_t>(to);
  }
  items.insert(items.end(), copies.begin(), copies.end());
}

}  // namespace

int LastStep(const Timeline& timeline) {
  int last = 0;
  for (const StepWindow& window : timeline.steps) last = std::max(last, window.step);
  return last;
}

std::set<int> RecordedRanks(const Timeline& timeline) {
  std::set<int> ranks;
  for (const StepWindow& window : timeline.steps) ranks.insert(window.rank);
  return ranks;
}

// Ranks of one class do the same, so a copy of the representative's spans is exact.
void AddTracedRanks(const StoredContext& context, const std::set<int>& traced, Timeline& forecast) {
  const std::set<int> known = RecordedRanks(forecast);
  if (std::includes(known.begin(), known.end(), traced.begin(), traced.end())) return;
  const std::vector<std::int32_t> stands_for =
      Representatives(context.context.model, context.plan, RankChoice::kClasses);
  for (const int rank : traced) {
    if (known.contains(rank) || rank >= std::ssize(stands_for)) continue;
    const int stands = stands_for[static_cast<std::size_t>(rank)];
    CopyRank(stands, rank, forecast.spans);
    CopyRank(stands, rank, forecast.memory);
    CopyRank(stands, rank, forecast.steps);
  }
  SortTimeline(forecast);
}

StructuralPairs PairAllSteps(const Timeline& forecast, Timeline& trace) {
  std::set<int> steps;
  for (const StepWindow& window : trace.steps) steps.insert(window.step);
  StructuralPairs all;
  for (const int step : steps) {
    all += PairByStructure(forecast, LastStep(forecast), trace, step);
  }
  return all;
}

}  // namespace foretrain

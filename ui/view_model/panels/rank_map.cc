#include "ui/view_model/panels/rank_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/units.h"

namespace foretrain::ui {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<std::string_view, kRankMetricCount> kNames{
    "step time", "compute", "exposed communication", "waiting", "peak memory"};

// Value of a metric that comes from RankStep. Step times and peaks have other sources.
double ValueOf(const RankStep& of, RankMetric metric) {
  switch (metric) {
    case RankMetric::kCompute:
      return static_cast<double>(of.classes.compute_ns);
    case RankMetric::kExposedCommunication:
      return static_cast<double>(of.classes.exposed_communication_ns);
    case RankMetric::kWait:
      return static_cast<double>(of.idle.dependency_ns + of.idle.peer_ns);
    case RankMetric::kStepTime:
    case RankMetric::kPeakMemory:
      break;
  }
  return kUnknown;
}

template <class Value>
std::size_t PlaceOf(const std::vector<Value>& values, Value value) {
  return static_cast<std::size_t>(std::lower_bound(values.begin(), values.end(), value) -
                                  values.begin());
}

// Every metric has its own source: step windows, rank steps or memory peaks. Cells without a value
// stay NaN.
void FillValues(const RunView& run, const Metrics& metrics, RankMap& map) {
  map.values.assign(map.ranks.size() * map.steps.size(), kUnknown);
  const auto at = [&map](int rank, std::int32_t step) -> double& {
    return map.values[PlaceOf(map.ranks, rank) * map.steps.size() + PlaceOf(map.steps, step)];
  };
  if (map.metric == RankMetric::kStepTime) {
    // Known for every step, including unloaded steps of a long run.
    for (const StepWindow& of : run.timeline.steps) {
      at(of.rank, of.step) = static_cast<double>(of.end_ns - of.start_ns);
    }
    return;
  }
  if (map.metric != RankMetric::kPeakMemory) {
    for (const RankStep& of : metrics.rank_steps) at(of.rank, of.step) = ValueOf(of, map.metric);
    return;
  }
  for (const MemoryPeak& peak : metrics.memory) {
    const bool known = std::binary_search(map.ranks.begin(), map.ranks.end(), peak.rank) &&
                       std::binary_search(map.steps.begin(), map.steps.end(), peak.step);
    if (peak.space == Space::kDevice && known) {
      at(peak.rank, peak.step) = static_cast<double>(peak.bytes);
    }
  }
}

// Medians and the colour scale use only counted steps, so that warm-up steps do not stretch the
// scale.
void FillRows(RankMap& map) {
  std::vector<double> medians;
  bool first = true;
  for (std::size_t r = 0; r < map.ranks.size(); ++r) {
    std::vector<double> values;
    for (std::size_t s = 0; s < map.steps.size(); ++s) {
      const double value = map.At(r, s);
      if (map.counted[s] && std::isfinite(value)) values.push_back(value);
    }
    const Statistics of = StatisticsOf(values);
    map.rows.push_back({map.ranks[r], of.median, of.spread, of.count});
    if (of.count == 0) continue;
    medians.push_back(of.median);
    map.min = first ? of.min : std::min(map.min, of.min);
    map.max = first ? of.max : std::max(map.max, of.max);
    first = false;
  }
  map.median = StatisticsOf(medians).median;
}

}  // namespace

std::string_view Name(RankMetric metric) { return kNames[static_cast<std::size_t>(metric)]; }

std::string FormatMetric(RankMetric metric, double value) {
  if (!std::isfinite(value)) return "not recorded";
  if (metric == RankMetric::kPeakMemory) return FormatBytes(std::llround(value));
  return FormatSeconds(value / kNsPerSecond);
}

// If all values are equal there is no scale, and only larger values (of uncounted steps) are
// shaded.
double RankMap::Shade(double value) const {
  if (!HasScale() || !std::isfinite(value)) return 0.0;
  if (!(max > min)) return value > max ? 1.0 : 0.0;
  return std::clamp((value - min) / (max - min), 0.0, 1.0);
}

// Ranks come from the step windows and steps from the metrics; both are sorted, so a look-up is a
// binary search.
RankMap MakeRankMap(const SideModel& side, RankMetric metric) {
  RankMap map;
  map.metric = metric;
  if (!side.IsPresent()) return map;
  std::set<int> ranks;
  for (const StepWindow& window : side.run->timeline.steps) ranks.insert(window.rank);
  map.ranks.assign(ranks.begin(), ranks.end());
  for (const StepMetrics& step : side.metrics->steps) {
    map.steps.push_back(step.step);
    map.counted.push_back(step.counted);
  }
  FillValues(*side.run, *side.metrics, map);
  FillRows(map);
  return map;
}

// A cell shows its highest value, so that one slow rank or step stays visible at any zoom.
FoldedRankMap Fold(const RankMap& map, std::size_t max_rows, std::size_t max_columns) {
  FoldedRankMap folded;
  folded.rows = std::min(map.ranks.size(), max_rows);
  folded.columns = std::min(map.steps.size(), max_columns);
  folded.cells.assign(folded.rows * folded.columns, {0, 0, kUnknown});
  if (folded.cells.empty()) return folded;
  for (std::size_t r = 0; r < map.ranks.size(); ++r) {
    const std::size_t row = r * folded.rows / map.ranks.size();
    for (std::size_t s = 0; s < map.steps.size(); ++s) {
      const std::size_t column = s * folded.columns / map.steps.size();
      RankCell& cell = folded.cells[row * folded.columns + column];
      const double value = map.At(r, s);
      // The first value of a cell stays until a higher one comes.
      const bool first = r == (row * map.ranks.size() + folded.rows - 1) / folded.rows &&
                         s == (column * map.steps.size() + folded.columns - 1) / folded.columns;
      if (first || (std::isfinite(value) && !(value <= cell.value))) cell = {r, s, value};
    }
  }
  return folded;
}

// The own entry is skipped: O(log n) for each rank instead of a new sort.
double MedianOfOthers(std::span<const double> medians, double own_median) {
  if (medians.size() < 2) return 0.0;
  const auto own = std::lower_bound(medians.begin(), medians.end(), own_median);
  const auto other = [&](std::size_t k) {
    return k < static_cast<std::size_t>(own - medians.begin()) ? medians[k] : medians[k + 1];
  };
  const std::size_t count = medians.size() - 1, half = count / 2;
  const double median = count % 2 == 1 ? other(half) : (other(half - 1) + other(half)) / 2;
  return median;
}

std::vector<double> SortedMedians(const RankMap& map) {
  std::vector<double> medians;
  for (const RankRow& row : map.rows) {
    if (row.steps > 0) medians.push_back(row.median);
  }
  std::sort(medians.begin(), medians.end());
  return medians;
}

std::vector<Straggler> StragglersOf(const RankMap& map, double min) {
  const std::vector<double> medians = SortedMedians(map);
  std::vector<Straggler> found;
  if (medians.size() < 2) return found;
  for (const RankRow& row : map.rows) {
    if (row.steps == 0) continue;
    const double median = MedianOfOthers(medians, row.median);
    const bool over = median > 0.0 && row.median >= (1.0 + kStragglerShare) * median;
    if (over && row.median - median >= min) found.push_back({row.rank, row.median, median});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Straggler& a, const Straggler& b) { return a.Excess() > b.Excess(); });
  return found;
}

std::string Describe(const Straggler& straggler, RankMetric metric) {
  return fmt::format("rank {}: {} {} over the others ({}, median of the others {})", straggler.rank,
                     Name(metric), FormatPercent(straggler.Excess()),
                     FormatMetric(metric, straggler.median),
                     FormatMetric(metric, straggler.others));
}

}  // namespace foretrain::ui

// One metric of every rank in every step: which rank is slow, and when.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

enum class RankMetric : std::uint8_t {
  kStepTime,              // length of the rank's step window
  kCompute,               // part of it with compute on the device
  kExposedCommunication,  // with communication alone
  kWait,                  // with nothing running: waits for inputs or peers
  kPeakMemory,            // on the device
};
inline constexpr int kRankMetricCount = 5;

// "step time", "waiting".
std::string_view Name(RankMetric metric);
// "12.3 ms" or "10.6 GiB".
std::string FormatMetric(RankMetric metric, double value);

// Statistics of one rank over the counted steps, which exclude warm-up.
struct RankRow {
  int rank = 0;
  double median = 0.0;
  double spread = 0.0;  // (third quartile - first) / median; 0 if the median is 0
  std::int64_t steps = 0;
};

// Values are nanoseconds or bytes; NaN if a rank has no such step or nothing was recorded.
struct RankMap {
  RankMetric metric = RankMetric::kStepTime;
  std::vector<int> ranks;           // ascending
  std::vector<std::int32_t> steps;  // ascending
  std::vector<bool> counted;        // by step: whether it counts for medians and the scale
  std::vector<double> values;       // by [rank * steps.size() + step]
  std::vector<RankRow> rows;        // by rank
  double min = 0.0;                 // minimum over counted steps; max < min if there are none
  double max = -1.0;
  double median = 0.0;  // median of the ranks' medians

  double At(std::size_t rank, std::size_t step) const { return values[rank * steps.size() + step]; }
  bool HasScale() const { return max >= min; }
  // Position of a value on the scale, clamped to [0, 1].
  double Shade(double value) const;
};

// The map of one run. O(rank steps * log).
RankMap MakeRankMap(const SideModel& side, RankMetric metric);

// The rank and step with the highest value among those that share a cell.
struct RankCell {
  std::size_t rank = 0;
  std::size_t step = 0;
  double value = 0.0;  // NaN if none of them is known
};
struct FoldedRankMap {
  std::size_t rows = 0;     // at most as many as there are ranks
  std::size_t columns = 0;  // at most as many as there are steps
  std::vector<RankCell> cells;

  const RankCell& At(std::size_t row, std::size_t column) const {
    return cells[row * columns + column];
  }
};
// Folds `map` into at most that many rows and columns (> 0); ranks and steps are distributed evenly
// and in order. O(values).
FoldedRankMap Fold(const RankMap& map, std::size_t max_rows, std::size_t max_columns);

// A rank is a straggler if its median exceeds the median of the other ranks' medians by this
// fraction.
inline constexpr double kStragglerShare = 0.05;

struct Straggler {
  int rank = 0;
  double median = 0.0;
  double others = 0.0;  // median of the other ranks' medians
  double Excess() const { return median / others - 1.0; }
};

// The medians of the ranks that have any, ascending.
std::vector<double> SortedMedians(const RankMap& map);

// Median of `medians` without one entry equal to `own_median`; 0 if there is no other. O(log n).
double MedianOfOthers(std::span<const double> medians, double own_median);

// The stragglers, worst first. `min`: minimum difference, so that a large fraction of a tiny
// value does not count. O(ranks log ranks).
std::vector<Straggler> StragglersOf(const RankMap& map, double min = 0.0);

// "rank 3: step time 12.0 % over the others (45.1 ms, median of the others 40.3 ms)".
std::string Describe(const Straggler& straggler, RankMetric metric);

}  // namespace foretrain::ui

// One figure of every rank in every step: who is slow, and when. Leaves out colours and drawing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ui/view_model/sides.h"

namespace foretrain::ui {

enum class RankFigure : std::uint8_t {
  kStepTime,              // of the rank's window
  kCompute,               // of it with compute on the device
  kExposedCommunication,  // with communication alone
  kWait,                  // with nothing, for inputs or for peers
  kPeakMemory,            // of the device
};
inline constexpr int kRankFigureCount = 5;

// "step time", "waiting".
std::string_view Name(RankFigure figure);
// "12.3 ms" or "10.6 GiB".
std::string FormatFigure(RankFigure figure, double value);

// Of one rank over the counted steps (all but those that warm up).
struct RankRow {
  int rank = 0;
  double median = 0.0;
  double spread = 0.0;  // (third quartile - first) / median; 0 where the median is 0
  std::int64_t steps = 0;
};

// Values in nanoseconds or bytes; NaN where a rank has no such step or nothing was recorded.
struct RankMap {
  RankFigure figure = RankFigure::kStepTime;
  std::vector<int> ranks;           // ascending
  std::vector<std::int32_t> steps;  // ascending
  std::vector<bool> counted;        // beside steps: whether it enters medians and the scale
  std::vector<double> values;       // [rank * steps.size() + step]
  std::vector<RankRow> rows;        // beside ranks
  double least = 0.0;               // of the counted steps; most < least: there are none
  double most = -1.0;
  double median = 0.0;  // of the ranks' medians

  double At(std::size_t rank, std::size_t step) const { return values[rank * steps.size() + step]; }
  bool HasScale() const { return most >= least; }
  // Where a value lies on the scale, held to [0, 1].
  double Shade(double value) const;
};

// The map of one run. O(rank steps log).
RankMap MakeRankMap(const SideModel& side, RankFigure figure);

// The ranks and steps that share a cell, [first, last], and the one whose value is the highest.
struct RankCell {
  std::size_t rank = 0;
  std::size_t step = 0;
  double value = 0.0;  // NaN: nothing is known of any
};
struct FoldedRankMap {
  std::size_t rows = 0;     // at most as many as there are ranks
  std::size_t columns = 0;  // at most as many as there are steps
  std::vector<RankCell> cells;

  const RankCell& At(std::size_t row, std::size_t column) const {
    return cells[row * columns + column];
  }
};
// `map` in at most that many rows and columns (> 0), ranks and steps dealt to them evenly and in
// order. O(values).
FoldedRankMap Fold(const RankMap& map, std::size_t most_rows, std::size_t most_columns);

// A rank whose median lies this far over the median of the others' medians stands out.
inline constexpr double kStragglerShare = 0.05;

struct Straggler {
  int rank = 0;
  double median = 0.0;
  double others = 0.0;  // median of the other ranks' medians
  double Excess() const { return median / others - 1.0; }
};

// The stragglers, the worst first. `least`: what the difference must be at least, so that a large
// share of nothing does not count. O(ranks log ranks).
std::vector<Straggler> StragglersOf(const RankMap& map, double least = 0.0);

// "rank 3: step time 12.0 % over the others (45.1 ms, median of the others 40.3 ms)".
std::string Describe(const Straggler& straggler, RankFigure figure);

}  // namespace foretrain::ui

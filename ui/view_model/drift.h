// How far a rank lies behind its forecast as a step goes on: where the line climbs, ops took longer
// than forecast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/compare/pairing.h"

namespace foretrain::ui {

struct DriftPoint {
  std::int64_t time_ns = 0;   // measured end of the op, since the measured step began
  std::int64_t drift_ns = 0;  // that less its predicted end, since the predicted step began
};

// The line of one rank, from (0, 0) on, sorted by time. Ops on the compute queue alone where there
// are any, else all but those on the host.
//
//   pairs               of one rank
//   predicted_start_ns  when the step began, in the predicted timeline
//   measured_start_ns   when it began in the measured one
//
// O(n log n).
std::vector<DriftPoint> DriftOfRank(std::span<const PairedOp> pairs,
                                    std::int64_t predicted_start_ns,
                                    std::int64_t measured_start_ns);

// The lowest and highest drift within one column of pixels and the last one: drawn as an upright
// stroke.
struct DriftColumn {
  int column = 0;
  double low_ns = 0.0;
  double high_ns = 0.0;
  double first_ns = 0.0;
  double last_ns = 0.0;
};

// The points inside [start_ns, end_ns) and one neighbour at each side, by column; columns without
// points are left out. Neighbours lie in columns -1 and `columns`, where the line crosses the edge.
// O(log n + points in the window).
std::vector<DriftColumn> FoldDrift(std::span<const DriftPoint> points, double start_ns,
                                   double end_ns, int columns);

// The drift at `time_ns`: that of the last op that ended by then, 0 before the first.
std::int64_t DriftAt(std::span<const DriftPoint> points, double time_ns);

}  // namespace foretrain::ui

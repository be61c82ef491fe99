// Computes how far a rank lies behind its forecast during a step: while the line rises, ops take
// longer than forecast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/compare/pairing.h"

namespace foretrain::ui {

struct DriftPoint {
  std::int64_t time_ns = 0;   // measured end of the op, relative to the start of the measured step
  std::int64_t drift_ns = 0;  // minus its predicted end, likewise
};

// The line of one rank from (0, 0) on, sorted by time. Uses only ops on the compute queue if there
// are any, otherwise all except those on the host.
//
//   pairs               of one rank
//   predicted_start_ns  start of the step in the predicted timeline
//   measured_start_ns   start of the step in the measured timeline
//
// O(n log n).
std::vector<DriftPoint> DriftOfRank(std::span<const PairedOp> pairs,
                                    std::int64_t predicted_start_ns,
                                    std::int64_t measured_start_ns);

// Range of drift within one column of pixels, drawn as a vertical stroke, and its first and last
// value.
struct DriftColumn {
  int column = 0;
  double low_ns = 0.0;
  double high_ns = 0.0;
  double first_ns = 0.0;
  double last_ns = 0.0;
};

// The points inside [start_ns, end_ns) by column; columns without points are left out. If the line
// crosses an edge, columns -1 and `columns` hold the crossing. O(log n + points in the window).
std::vector<DriftColumn> FoldDrift(std::span<const DriftPoint> points, double start_ns,
                                   double end_ns, int columns);

// Drift of the last op that ended by `time_ns`; 0 before the first.
std::int64_t DriftAt(std::span<const DriftPoint> points, double time_ns);

}  // namespace foretrain::ui

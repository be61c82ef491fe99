// Times of single ops from the kernels of a run, as points of a device profile. With them the
// simulator forecasts other plans and other numbers of ranks. learn.h learns from whole steps.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/profile/device_profile.h"
#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

struct TracedPoints {
  std::vector<ProfilePoint> points{};  // no two have the same key
  int timed = 0;                       // points with a measured time
  int fused = 0;                       // points of ops that have no kernel anywhere
  std::int64_t samples = 0;            // ops of a rank and step that were timed
};

// Seconds of an op without a kernel: the kernel of a neighbour does its work.
inline constexpr double kFusedSeconds = 1e-9;

// How the spans of collectives tell the time from the last arrival, which points have.
enum class CollectiveSpans : std::uint8_t {
  kNone,         // they do not: collectives get no points
  kFromLast,     // each is that time, as in a forecast
  kIfTogether,   // if all members were traced and begin within a microsecond: a trace whose calls
                 // were matched across ranks
  kFromArrival,  // they begin with the rank's own arrival, on one clock: foretrain's own runs. All
                 // members must have been recorded
};

struct TracedPointsOptions {
  CollectiveSpans collectives = CollectiveSpans::kNone;
  const ClusterSpec* cluster = nullptr;  // with collectives: where the ranks ran
};

// The points of `program`'s compute ops: for each key (kind, shape, formats, flags) the median over
// ranks, layers, micro-batches and steps of the time that an op's kernels take together. Ops of
// traced ranks that never have a kernel get kFusedSeconds; ops of other ranks alone have no point.
//
//   program   of the run; a rank that is left out has the ops of its representative
//   measured  sorted; spans have the ids of the program's ops, whether they were recorded by
//             foretrain or paired by structure. If it has several steps, the first is left out,
//             because it warms up
//
// Leaves out transfers and copies: links and networks have rates of their own. O(ops + spans *
// log).
TracedPoints PointsOfTrace(const Program& program, const Timeline& measured,
                           const TracedPointsOptions& options = {});

// Changes points so that a forecast with them gives their times: a forecast adds what a point does
// not have, such as members that arrive late, or devices slower than the median.
//
//   points    of a run; changed
//   forecast  the points of the forecast that was made with `points`
//
// Each point is multiplied by its measured time over its forecast; call it again with the next
// forecast until they agree. `measured` are the points of the run, in the order of `points`.
void FitPoints(const std::vector<ProfilePoint>& measured, const TracedPoints& forecast,
               std::vector<ProfilePoint>& points);

}  // namespace foretrain

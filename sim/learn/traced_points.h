// Times of single ops from the kernels of a run, as points of a device profile. With them the
// simulator forecasts other plans and other numbers of ranks. learn.h learns from whole steps.
#pragma once

#include <vector>

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

// The points of `program`'s compute ops: for each key (kind, shape, formats, flags) the median over
// ranks, layers, micro-batches and steps of the time that an op's kernels take together. Ops of
// traced ranks that never have a kernel get kFusedSeconds; ops of other ranks alone have no point.
//
//   program   of the run; a rank that is left out has the ops of its representative
//   measured  sorted; spans have the ids of the program's ops, whether they were recorded by
//             foretrain or paired by structure. If it has several steps, the first is left out,
//             because it warms up
//
// Leaves out communication and copies: links and networks have rates of their own. O(ops + spans *
// log).
TracedPoints PointsOfTrace(const Program& program, const Timeline& measured);

}  // namespace foretrain

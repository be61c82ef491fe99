// The longest way through a step's slots, from the first forward to the last end, where chunks take
// different times: what the length of a step is made of.
#pragma once

#include <array>
#include <vector>

#include "sim/program/schedules/schedule.h"
#include "sim/search/pipeline_table.h"

namespace foretrain {

struct LongestWay {
  double seconds = 0;
  std::vector<PassSeconds> passes;  // how many, by class and ChunkPass
  double sends = 0;
};

// As LongestPath (schedule.h), of a schedule whose steps do not overlap.
//
//   classes  [rank][chunk]: class of the chunk, an index of `times`
//   times    of one chunk's pass for one micro-batch, by class; a pair takes kPairF and kPairB
//
// O(slots of all ranks).
LongestWay FindLongestWay(ScheduleKind schedule, const PipelineShape& shape,
                          const std::vector<std::vector<int>>& classes,
                          const std::vector<PassSeconds>& times, double send_s);

}  // namespace foretrain

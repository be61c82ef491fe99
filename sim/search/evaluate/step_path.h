// The longest path through a step's slots, from the first forward to the last end, for chunks of
// different times. The passes on it explain the length of a step.
#pragma once

#include <vector>

#include "sim/program/schedules/schedule.h"
#include "sim/search/evaluate/pipeline_table.h"

namespace foretrain {

struct StepPath {
  double seconds = 0;
  std::vector<PassSeconds> passes;  // count on the path, by class and ChunkPass
  double sends = 0;
};

// Same as LongestPath (schedule.h), but each chunk has its own times. Steps must not overlap.
//
//   classes  [rank][chunk]: class of the chunk, an index into `times`
//   times    seconds of a pass for one micro-batch, by class; a pair takes kPairF + kPairB
//   send_s   seconds of one boundary tensor on a link between ranks
//
// O(slots of all ranks).
StepPath FindStepPath(ScheduleKind schedule, const PipelineShape& shape,
                      const std::vector<std::vector<int>>& classes,
                      const std::vector<PassSeconds>& times, double send_s);

}  // namespace foretrain

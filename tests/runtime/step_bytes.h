// What each op of communication or copy moves in a step: as forecast and as measured.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/run_sink.h"
#include "sim/program/program.h"
#include "traces/timeline.h"

namespace foretrain {

using StepBytes = std::map<std::pair<int, OpId>, std::int64_t>;  // by rank and op, of step 0

StepBytes BytesOf(const Timeline& timeline);

// Of a simulation in which every op takes as long as any other, once it knows what routers chose
// in step 0 of a run. Fails the test where it cannot run.
StepBytes PredictedBytes(const Program& program, const std::vector<RoutedCounts>& routing = {});

}  // namespace foretrain

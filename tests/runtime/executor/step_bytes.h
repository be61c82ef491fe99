// Bytes moved by each communication or copy op of a step: forecast and measured.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/run/run_sink.h"
#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

using StepBytes = std::map<std::pair<int, OpId>, std::int64_t>;  // by rank and op, of step 0

StepBytes BytesOf(const Timeline& timeline);

// From a simulation with equal times for all ops, given the routing of step 0 of a run. Fails the
// test if it cannot run.
StepBytes PredictedBytes(const Program& program, const std::vector<RoutedCounts>& routing = {});

}  // namespace foretrain

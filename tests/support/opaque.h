// Builds a pipeline whose stages are opaque ops of given duration, for tests of schedules, the
// simulator and executors on a virtual clock. It has no model, no parameters and no groups but
// neighbours.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Bytes of the activations that a forward keeps for its backward. Nothing else is of
// Category::kActivations, so live activations count in units of it.
inline constexpr std::int64_t kOpaqueUnitBytes = 256;

// The linked and verified program of a pipeline. Each slot of the schedule is one instruction with
// one op on the compute queue, between receives and sends of 256 bytes. A pair is one unit: its
// forward waits for both inputs and takes the time of both, and its backward ends with it.
//
//   shape                 accepted by the schedule; m < 2^18
//   times                 of a rank's whole share; send_s is ignored
//   early_input_gradient  true: a kBackward is two ops, I then W, and its send waits for I alone;
//                         false: it is one op, and its input gradient is ready at its end
//
// If early_input_gradient is false and transfers and launches take no time, a step takes
// Makespan(schedule, shape, times) with send_s = 0. O(p m).
Program OpaquePipeline(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times,
                       bool early_input_gradient);

}  // namespace foretrain

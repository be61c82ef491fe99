// A pipeline whose stages are opaque ops of given length: tests of schedules, of the simulator and
// of executors on a virtual clock. Leaves out models, parameters and every group but neighbours.
#pragma once

#include <cstdint>

#include "sim/program/program.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Bytes of the activations that a forward keeps for its backward; the one Category::kActivations
// there is, so that live activations count in units of it.
inline constexpr std::int64_t kOpaqueUnitBytes = 256;

// The linked and verified program of a pipeline; each slot of the schedule is one instruction of
// one op on the compute queue, between receives and sends of 256 bytes. A pair is one unit: its
// forward waits for both inputs and takes the time of both, and its backward ends with it.
//
//   shape                 that the schedule accepts; m < 2^18
//   times                 of a rank's whole share; send_s does not count
//   early_input_gradient  a kBackward is two ops, I then W, and its send waits for I alone; false:
//                         one op, and its input gradient is there at its end
//
// With transfers and launches that take no time a step takes Makespan(schedule, shape, times) with
// send_s = 0 when early_input_gradient is false. O(p m).
Program OpaquePipeline(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times,
                       bool early_input_gradient);

}  // namespace foretrain

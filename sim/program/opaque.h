// A pipeline whose stages are opaque ops of given length: tests of schedules, of the simulator and
// of executors on a virtual clock. Leaves out models, parameters and every group but neighbours.
#pragma once

#include <cstdint>

#include "sim/program/program.h"

namespace foretrain {

// Seconds of one micro-batch on one rank.
struct OpaqueTimes {
  double forward_s = 0;
  double input_s = 0;
  double weight_s = 0;
};

// Bytes of the activations that a forward keeps for its backward; the one Category::kActivations
// there is, so that live activations count in units of it.
inline constexpr std::int64_t kOpaqueUnitBytes = 256;

// The linked and verified program of `p` ranks and `m` micro-batches; each slot of the schedule is
// one instruction of one op on the compute queue, between receives and sends of 256 bytes.
//
//   p, m                  >= 1; m < 2^18
//   early_input_gradient  a kBackward is two ops, I then W, and its send waits for I alone; false:
//                         one op, and its input gradient is there at its end
//
// With transfers and launches that take no time a step takes Makespan(schedule, p, m, ...,
// send_s = 0) when early_input_gradient is false. O(p m).
Program OpaquePipeline(ScheduleKind schedule, int p, int m, const OpaqueTimes& times,
                       bool early_input_gradient);

}  // namespace foretrain

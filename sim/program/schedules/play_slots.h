// Computes when each slot of a pipeline runs from the time of each chunk's passes: a simulation
// whose events are slots. Leaves out the ops within a slot (sim/simulate).
#pragma once

#include <span>
#include <vector>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Seconds of one pass: to its end, and to the moment when the output that the neighbour waits for
// may be sent. The rest of a backward computes weight gradients.
struct PassTime {
  double length_s = 0;
  double output_s = 0;  // at most length_s
};

// Times of one micro-batch on one chunk of one rank.
struct ChunkTimes {
  PassTime forward;
  PassTime backward;  // input and weight half in one slot
  PassTime input;     // the halves in slots of their own
  double weight_s = 0;
};

// Times of a transfer between neighbours. `wake_s` is added to the start of a pass or transfer
// whose rank or link had to wait for its input.
struct HopTimes {
  double send_s = 0;  // for one boundary tensor
  double wake_s = 0;
  double gap_s = 0;  // between transfers of one link
};

// When one slot ran; plain data.
struct SlotSpan {
  double start_s = 0;
  double end_s = 0;
  double ready_s = 0;  // when its input had come; 0 for a weight gradient
  Slot slot;
};

struct PlayedSlots {
  double end_s = 0;                          // of the last slot
  std::vector<std::vector<SlotSpan>> spans;  // [rank], in order
};

// Plays each rank's slots in order, each as soon as its input has come. A pair is one unit that
// waits for both inputs and gives both outputs at its end. Requires a schedule whose steps do not
// overlap.
//
//   times   [rank * chunks of a rank + chunk]
//   hop     sends of one direction queue up
//
// O(slots of all ranks); safe from any thread.
PlayedSlots PlaySlots(ScheduleKind schedule, const PipelineShape& shape,
                      std::span<const ChunkTimes> times, const HopTimes& hop);

}  // namespace foretrain

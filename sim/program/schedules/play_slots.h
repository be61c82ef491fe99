// When each slot of a pipeline runs, given how long each chunk's passes take: a simulation whose
// events are slots. Leaves out what happens in a slot (sim/simulate) and what a pass takes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Seconds of one pass: from its start to its end, and to the moment when what the neighbour waits
// for may be sent (the rest of a backward makes weight gradients).
struct PassTime {
  double length_s = 0;
  double output_s = 0;  // at most length_s
};

// Of one micro-batch on one chunk of one rank.
struct ChunkTimes {
  PassTime forward;
  PassTime backward;  // both halves in one slot
  PassTime input;     // the halves
  double weight_s = 0;
};

// Between neighbours. `wake_s`: a pass or transfer starts so much later where its rank or link had
// to wait for its input.
struct HopTimes {
  double send_s = 0;  // of one boundary tensor
  double wake_s = 0;
  double gap_s = 0;  // between transfers of one link
};

// One slot; plain data.
struct SlotSpan {
  double start_s = 0;
  double end_s = 0;
  double ready_s = 0;  // when its input had come
  Slot slot;
};

struct PlayedSlots {
  double end_s = 0;                          // of the last slot
  std::vector<std::vector<SlotSpan>> spans;  // [rank], in order
};

// Plays each rank's slots in order, each as soon as its input has come; a pair is one unit that
// waits for both its inputs and gives both outputs at its end. Not for schedules whose steps
// overlap.
//
//   times   [rank * chunks of a rank + chunk]
//   hop     sends of one direction queue up
//
// O(slots of all ranks); safe from any thread.
PlayedSlots PlaySlots(ScheduleKind schedule, const PipelineShape& shape,
                      std::span<const ChunkTimes> times, const HopTimes& hop);

}  // namespace foretrain

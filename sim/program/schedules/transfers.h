// Which tensors a pipeline rank receives and sends around its slots, in an order in which no two
// ranks wait for each other. Leaves out what the tensors hold.
#pragma once

#include <optional>
#include <vector>

#include "sim/program/schedules/placement.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// One boundary tensor on its way between two ranks: the output of a stage's forward, or the input
// gradient of its backward.
struct Transfer {
  Pass pass = Pass::kForward;  // or kBackward
  int stage = 0;               // that makes it
  int micro_batch = 0;
  bool down = false;   // from a rank to the next one on the ring, else to the previous one
  bool ahead = false;  // for the next step, on both sides
};

struct SlotWithTransfers {
  std::vector<Transfer> receives;  // issued before the slot; not all need be its own inputs
  Slot slot;
  std::optional<Transfer> send;  // of what the slot makes
};

// The slots of `rank` with its receives and sends. Transfers between two ranks in one direction
// happen one after the other, so each rank issues its receives in the order in which the other one
// sends, ahead of their slot where need be; both inputs of a pair come before the pair. What is
// sent ahead and read by the next step's slots is received before the last slot. O(m).
std::vector<SlotWithTransfers> SlotsWithTransfers(ScheduleKind schedule, const PipelineShape& shape,
                                                  int rank);

}  // namespace foretrain

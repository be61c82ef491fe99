// Finds the tensors that a pipeline rank receives and sends around its slots, in an order in which
// no two ranks wait for each other. Leaves out the contents of the tensors.
#pragma once

#include <optional>
#include <vector>

#include "sim/config/schedule/placement.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// One boundary tensor between two ranks: the output of a stage's forward, or the input gradient of
// its backward.
struct Transfer {
  Pass pass = Pass::kForward;  // or kBackward
  int stage = 0;               // stage that makes it
  int micro_batch = 0;
  bool down = false;           // from a rank to the next one on the ring, else to the previous one
  bool for_next_step = false;  // for the next step, on both sides
};

struct SlotWithTransfers {
  std::vector<Transfer> receives;  // issued before the slot; not all need be its own inputs
  Slot slot;
  std::optional<Transfer> send;  // output of the slot; `nullopt` if none leaves the rank
};

// The slots of `rank` with its receives and sends. Transfers between two ranks in one direction
// happen one after the other. So each rank issues its receives in the sender's order, before their
// slot if need be; both inputs of a pair come before the pair. Tensors that only the next step's
// slots read are received before the last slot. O(m).
std::vector<SlotWithTransfers> SlotsWithTransfers(ScheduleKind schedule, const PipelineShape& shape,
                                                  int rank);

}  // namespace foretrain

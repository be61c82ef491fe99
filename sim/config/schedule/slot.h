// One pass of a pipeline schedule. Leaves out what a pass computes.
#pragma once

#include "traces/kinds.h"

namespace foretrain {

// One pass of one chunk (a share of the rank's layers, placement.h) for one micro-batch. Passes:
// kForward, kBackward (both halves), kBackwardInput, kBackwardWeight.
struct Slot {
  Pass pass = Pass::kForward;
  int chunk = 0;
  int micro_batch = 0;
  bool paired = false;         // with the next slot: the two run as one, their layers overlapped
  bool for_next_step = false;  // belongs to a micro-batch of the next step (docs/program.md)

  bool operator==(const Slot&) const = default;
};

}  // namespace foretrain

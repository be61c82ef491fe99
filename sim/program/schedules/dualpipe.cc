#include <algorithm>

#include "sim/program/schedules/slot_writer.h"

namespace foretrain {
namespace {

// The slots of a rank of DualPipe or DualPipeV. `far` ranks lie between this rank and the one where
// its two directions meet, `near` between it and the end. Chunk `a` is filled first, `pairs` is the
// length of the steady state. Deferred weight gradients fill the rest of the bubbles.
std::vector<Slot> TwoWaySlots(SlotWriter out, int a, int far, int near, int pairs,
                              bool first_pair_apart) {
  const int b = 1 - a;
  // Fill from one end, then from both, then start the backwards of the other direction.
  for (int k = 0; k < 2 * far; ++k) out.Forward(a);
  for (int k = 0; k < near + 1; ++k) out.Forward(a), out.Forward(b);
  for (int k = 0; k < far; ++k) out.Input(b), out.Weight(), out.Forward(b);
  // Steady state: each forward is paired with a backward of the other direction.
  for (int k = 0; k < pairs; ++k) {
    if (k == 0 && first_pair_apart) {
      out.Forward(a), out.Backward(b);
    } else {
      out.Pair(a, b);
    }
    out.Pair(b, a);
  }
  // Drain: a backward alone, then one that is still paired, in turn.
  for (int k = 0; k < far; ++k) out.Backward(b), out.Pair(b, a);
  // From half way on, weight halves are deferred.
  const int half = (near + 1) / 2;
  for (int k = 0; k < near + 1; ++k) {
    const bool b_late = k > half || (k == half && near % 2 == 1);
    b_late ? out.Input(b) : out.Backward(b);
    k >= half ? out.Input(a) : out.Backward(a);
  }
  for (int k = 0; k < far; ++k) out.Weight(), out.Input(a);
  for (int k = 0; k < near + 1; ++k) out.Weight();
  return out.Take();
}

}  // namespace

// Chunk 0 runs down the ranks and chunk 1 back up: the two meet at the last rank, p - rank - 1
// ranks away.
std::vector<Slot> DualPipeVSlots(const PipelineShape& shape, int rank) {
  const int p = shape.p, m = shape.m;
  return TwoWaySlots(SlotWriter({0, 0}, {m, m}), 0, p - rank - 1, rank, m - 2 * p + rank + 1,
                     rank == p - 1);
}

// Half of the micro-batches enter at each end of the pipeline, and the two halves meet in the
// middle. So a rank and its mirror image have the same slots with the chunks exchanged.
std::vector<Slot> DualPipeSlots(const PipelineShape& shape, int rank) {
  const int p = shape.p, m = shape.m;
  const int near = std::min(rank, p - 1 - rank);
  return TwoWaySlots(SlotWriter({0, m / 2}, {m / 2, m - m / 2}), rank < p / 2 ? 0 : 1,
                     p / 2 - near - 1, near, m / 2 - p + near + 1, near == p / 2 - 1);
}

}  // namespace foretrain

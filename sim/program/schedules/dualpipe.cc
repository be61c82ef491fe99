#include <algorithm>

#include "sim/program/schedules/slot_writer.h"

namespace foretrain {
namespace {

// What DualPipe and DualPipeV share: `far` ranks lie between this one and where its two ways meet,
// `near` between it and the end; chunk `a` is the one that is filled first, `pairs` the length of
// the steady state. Weight gradients fill what is left of the bubbles.
std::vector<Slot> TwoWaySlots(SlotWriter out, int a, int far, int near, int pairs,
                              bool first_pair_apart) {
  const int b = 1 - a;
  for (int k = 0; k < 2 * far; ++k) out.Forward(a);
  for (int k = 0; k < near + 1; ++k) out.Forward(a), out.Forward(b);
  for (int k = 0; k < far; ++k) out.Input(b), out.Weight(), out.Forward(b);
  for (int k = 0; k < pairs; ++k) {
    if (k == 0 && first_pair_apart) {
      out.Forward(a), out.Backward(b);
    } else {
      out.Pair(a, b);
    }
    out.Pair(b, a);
  }
  for (int k = 0; k < far; ++k) out.Backward(b), out.Pair(b, a);
  // Half way the weight halves begin to be put off.
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

std::vector<Slot> DualPipeVSlots(const PipelineShape& shape, int rank) {
  const auto [p, m, vpp] = shape;
  return TwoWaySlots(SlotWriter({0, 0}, {m, m}), 0, p - rank - 1, rank, m - 2 * p + rank + 1,
                     rank == p - 1);
}

std::vector<Slot> DualPipeSlots(const PipelineShape& shape, int rank) {
  const auto [p, m, vpp] = shape;
  const int near = std::min(rank, p - 1 - rank);
  return TwoWaySlots(SlotWriter({0, m / 2}, {m / 2, m - m / 2}), rank < p / 2 ? 0 : 1,
                     p / 2 - near - 1, near, m / 2 - p + near + 1, near == p / 2 - 1);
}

}  // namespace foretrain

#include <algorithm>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Twice the warm-up of 1F1B, so that no rank waits in the middle if F = I = W. Rank r has up to 2r
// weight gradients pending and runs them at the end.
std::vector<Slot> ZbH2Slots(const PipelineShape& shape, int rank) {
  const int m = shape.m;
  const int warm_up = std::min(m, 2 * (shape.p - rank) - 1);
  std::vector<Slot> slots;
  for (int i = 0; i < warm_up; ++i) slots.push_back({Pass::kForward, 0, i});
  int paid = 0;
  for (int i = 0; i < m; ++i) {
    slots.push_back({Pass::kBackwardInput, 0, i});
    if (i >= 2 * rank) slots.push_back({Pass::kBackwardWeight, 0, paid++});
    if (warm_up + i < m) slots.push_back({Pass::kForward, 0, warm_up + i});
  }
  while (paid < m) slots.push_back({Pass::kBackwardWeight, 0, paid++});
  return slots;
}

}  // namespace foretrain

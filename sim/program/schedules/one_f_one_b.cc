#include <algorithm>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Fill with as many forwards as there are ranks behind, then one forward and one backward in turn,
// so that rank r never holds more than p - r micro-batches.
std::vector<Slot> OneFOneBSlots(int p, int m, int rank) {
  const int warm_up = std::min(m, p - 1 - rank);
  std::vector<Slot> slots;
  for (int i = 0; i < warm_up; ++i) slots.push_back({Pass::kForward, 0, i});
  for (int i = 0; i < m; ++i) {
    if (warm_up + i < m) slots.push_back({Pass::kForward, 0, warm_up + i});
    slots.push_back({Pass::kBackward, 0, i});
  }
  return slots;
}

}  // namespace foretrain

#include "sim/program/schedules/schedule.h"

namespace foretrain {

std::vector<Slot> GpipeSlots(int /*p*/, int m, int /*rank*/) {
  std::vector<Slot> slots;
  for (int i = 0; i < m; ++i) slots.push_back({Pass::kForward, 0, i});
  for (int i = 0; i < m; ++i) slots.push_back({Pass::kBackward, 0, i});
  return slots;
}

}  // namespace foretrain

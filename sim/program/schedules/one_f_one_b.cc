#include <algorithm>

#include "base/checked.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Starts with one forward for each rank behind this one, then alternates one forward and one
// backward. So rank r never holds more than p - r micro-batches.
std::vector<Slot> OneFOneBSlots(const PipelineShape& shape, int rank) {
  const int m = shape.m;
  const int warm_up = std::min(m, shape.p - 1 - rank);
  std::vector<Slot> slots;
  for (int i = 0; i < warm_up; ++i) slots.push_back({Pass::kForward, 0, i});
  for (int i = 0; i < m; ++i) {
    if (warm_up + i < m) slots.push_back({Pass::kForward, 0, warm_up + i});
    slots.push_back({Pass::kBackward, 0, i});
  }
  return slots;
}

// The first micro-batch travels over p - 1 links and back. The m - 1 others follow on the longest
// chains F(i) .. B(i) F(i + k) .. B(i + k) of k <= p micro-batches; each chain crosses k - 1 links
// and back.
double OneFOneBMakespan(const PipelineShape& shape, const SlotTimes& t) {
  const int p = shape.p, m = shape.m;
  if (p > 1 && t.send_s > t.forward_s) return -1;
  const auto chains = CeilDiv(m - 1, p);
  return (m + p - 1) * (t.forward_s + t.input_s + t.weight_s) +
         2 * static_cast<double>(p - 1 + m - 1 - chains) * t.send_s;
}

}  // namespace foretrain

#include <algorithm>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// 1F1B with deferred weight gradients: a full rank r always has r of them pending. So every rank
// holds at most p micro-batches, and runs the pending ones where 1F1B idles at the end.
std::vector<Slot> ZbH1Slots(const PipelineShape& shape, int rank) {
  const int m = shape.m;
  const int warm_up = std::min(m, shape.p - 1 - rank);
  std::vector<Slot> slots;
  for (int i = 0; i < warm_up; ++i) slots.push_back({Pass::kForward, 0, i});
  int paid = 0;
  for (int i = 0; i < m; ++i) {
    if (warm_up + i < m) slots.push_back({Pass::kForward, 0, warm_up + i});
    slots.push_back({Pass::kBackwardInput, 0, i});
    if (i >= rank) slots.push_back({Pass::kBackwardWeight, 0, paid++});
  }
  while (paid < m) slots.push_back({Pass::kBackwardWeight, 0, paid++});
  return slots;
}

// The chain through the last rank: the weight halves hide part of each bubble. It is the longest
// only without sends, for W <= F, W <= I and m >= p.
double ZbH1Makespan(const PipelineShape& shape, const SlotTimes& t) {
  const int p = shape.p, m = shape.m;
  const bool through_last = m >= p && t.weight_s <= std::min(t.forward_s, t.input_s);
  if ((p > 1 && t.send_s > 0) || !through_last) return -1;
  return m * (t.forward_s + t.input_s + t.weight_s) +
         (p - 1) * (t.forward_s + t.input_s - t.weight_s);
}

}  // namespace foretrain

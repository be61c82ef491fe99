#include <algorithm>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// All forwards, then all backwards in the same order, so that gradients are added in ascending
// order of micro-batch.
std::vector<Slot> GpipeSlots(const PipelineShape& shape, int /*rank*/) {
  std::vector<Slot> slots;
  for (int i = 0; i < shape.m; ++i) slots.push_back({Pass::kForward, 0, i});
  for (int i = 0; i < shape.m; ++i) slots.push_back({Pass::kBackward, 0, i});
  return slots;
}

// The classic bubble of p - 1 forwards and backwards; the first and the last micro-batch cross
// every link once in each direction. Exact only if a send is no longer than a pass, so that sends
// never queue up.
double GpipeMakespan(const PipelineShape& shape, const SlotTimes& t) {
  const double backward_s = t.input_s + t.weight_s;
  if (shape.p > 1 && t.send_s > std::min(t.forward_s, backward_s)) return -1;
  return (shape.m + shape.p - 1) * (t.forward_s + backward_s) + 2 * (shape.p - 1) * t.send_s;
}

}  // namespace foretrain

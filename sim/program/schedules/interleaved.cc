#include <algorithm>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

// Micro-batches run in groups (of p if m is a multiple of p): chunk 0 over the group, chunk 1 over
// the group, and so on; backwards take the chunks in reverse. Otherwise as 1F1B, with a warm-up
// that reaches the last chunk of the last rank.
std::vector<Slot> InterleavedSlots(const PipelineShape& shape, int rank) {
  const int p = shape.p, m = shape.m, v = shape.vpp;
  const int rounds = std::max(1, m / p);
  const int group = m / rounds;
  const int all = m * v;
  const auto slot = [&](Pass pass, int k) {
    const int in_round = k % (group * v);
    const int chunk = in_round / group;
    return Slot{pass, pass == Pass::kForward ? chunk : v - 1 - chunk,
                k / (group * v) * group + in_round % group};
  };
  const int warm_up = std::min(all, 2 * (p - 1 - rank) + (v - 1) * group);
  std::vector<Slot> slots;
  for (int k = 0; k < warm_up; ++k) slots.push_back(slot(Pass::kForward, k));
  for (int k = 0; k < all; ++k) {
    if (warm_up + k < all) slots.push_back(slot(Pass::kForward, warm_up + k));
    slots.push_back(slot(Pass::kBackward, k));
  }
  return slots;
}

// The bubble of 1F1B divided by the number of chunks. Known only without sends, and for full groups
// of p micro-batches.
double InterleavedMakespan(const PipelineShape& shape, const SlotTimes& t) {
  const int p = shape.p, m = shape.m, v = shape.vpp;
  if (m % p != 0 || (p > 1 && t.send_s > 0)) return -1;
  return (m + static_cast<double>(p - 1) / v) * (t.forward_s + t.input_s + t.weight_s);
}

}  // namespace foretrain

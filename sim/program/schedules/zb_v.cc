#include <algorithm>

#include "sim/program/schedules/slot_writer.h"

namespace foretrain {

// V shape: the first rank holds the first and the last stage. The pattern is that of max(2p - 1, m)
// micro-batches; slots of micro-batches that do not exist are left out.
std::vector<Slot> ZbVSlots(const PipelineShape& shape, int rank) {
  const int p = shape.p, m = shape.m;
  const int n = std::max(2 * p - 1, m);
  std::vector<Slot> slots;
  std::array<int, 2> forward{}, input{}, weight{};
  const auto add = [&](std::array<int, 2>& counter, Pass pass, int chunk) {
    const int micro_batch = counter[static_cast<std::size_t>(chunk)]++;
    if (micro_batch < m) slots.push_back({pass, chunk, micro_batch});
  };
  const auto f = [&](int chunk) { add(forward, Pass::kForward, chunk); };
  const auto i = [&](int chunk) { add(input, Pass::kBackwardInput, chunk); };
  const auto w = [&](int chunk) { add(weight, Pass::kBackwardWeight, chunk); };

  // Warm-up down the V, then up again, until both chunks run.
  for (int k = 0; k < 2 * (p - rank) - 1; ++k) f(0);
  for (int k = 0; k < rank; ++k) f(1), f(0);
  for (int k = 0; k < p - rank; ++k) f(1), i(1), w(1);
  // Steady state: forward, input and weight half of each chunk in turn.
  while (forward[1] < n) {
    if (forward[0] < n) f(0);
    i(0), w(0), f(1), i(1), w(1);
  }
  // Drain: the remaining weight halves fill the end.
  for (int k = 0; k < rank; ++k) i(0), i(1);
  for (int k = 0; k < p - rank; ++k) i(0), w(0);
  while (weight[1] < n) w(1);
  while (weight[0] < n) w(0);
  return slots;
}

}  // namespace foretrain

#include "base/result.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// 1F1B that never drains: once the first p - 1 - r forwards have filled rank r, it alternates a
// forward and a backward for ever. So the last p - 1 - r forwards of a step belong to the next
// step's batch.
std::vector<Slot> PipeDreamSlots(const PipelineShape& shape, int rank) {
  const int p = shape.p, m = shape.m;
  FT_CHECK(m >= p);
  const int lead = p - 1 - rank;
  std::vector<Slot> slots;
  for (int i = 0; i < m; ++i) {
    const int forward = (i + lead) % m;
    slots.push_back(
        {.pass = Pass::kForward, .micro_batch = forward, .for_next_step = i + lead >= m});
    slots.push_back({.pass = Pass::kBackward, .micro_batch = i});
  }
  return slots;
}

// The time that a step adds to a long run is the largest mean of a cycle of waits. Rank 0's forward
// of a micro-batch waits for the backward p micro-batches earlier, which has crossed all ranks and
// all links in both directions. Every other cycle is shorter or serves more micro-batches for its
// length.
double PipeDreamMakespan(const PipelineShape& shape, const SlotTimes& t) {
  const int p = shape.p, m = shape.m;
  return m * (t.forward_s + t.input_s + t.weight_s + 2.0 * (p - 1) / p * t.send_s);
}

}  // namespace foretrain

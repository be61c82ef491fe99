#include "base/result.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// 1F1B that never drains: once the first p - 1 - r forwards have filled rank r, a forward and a
// backward in turn, for ever. So the last p - 1 - r forwards of a step are of the next step's
// batch.
std::vector<Slot> PipeDreamSlots(const PipelineShape& shape, int rank) {
  const auto [p, m, vpp] = shape;
  FT_CHECK(m >= p);
  const int lead = p - 1 - rank;
  std::vector<Slot> slots;
  for (int i = 0; i < m; ++i) {
    const int forward = (i + lead) % m;
    slots.push_back({.pass = Pass::kForward, .micro_batch = forward, .ahead = i + lead >= m});
    slots.push_back({.pass = Pass::kBackward, .micro_batch = i});
  }
  return slots;
}

// What a micro-batch adds to a long run is the largest mean of a circle of waits. Rank 0's forward
// of a micro-batch waits for its backward of p micro-batches ago, which has gone through all ranks
// and over all links there and back; every other circle is shorter or has more micro-batches for
// its length.
double PipeDreamMakespan(const PipelineShape& shape, const SlotTimes& t) {
  const auto [p, m, vpp] = shape;
  return m * (t.forward_s + t.input_s + t.weight_s + 2.0 * (p - 1) / p * t.send_s);
}

}  // namespace foretrain

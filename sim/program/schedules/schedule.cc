#include "sim/program/schedules/schedule.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/checked.h"

namespace foretrain {
namespace {

// One rank of a pipeline whose slots run one after the other.
struct Runner {
  std::vector<Slot> slots;
  std::size_t next = 0;
  double now_s = 0;
  double send_next_s = 0;              // when the link to the next rank is free
  double send_prev_s = 0;              // and the one to the previous rank
  std::vector<double> input_s;         // by micro-batch: arrival from the previous rank
  std::vector<double> out_gradient_s;  // by micro-batch: arrival from the next rank
};

constexpr double kNever = std::numeric_limits<double>::infinity();

// Runs the next slot of `rank`, and says whether its input had come.
bool RunSlot(std::vector<Runner>& ranks, std::size_t rank, double forward_s, double input_s,
             double weight_s, double send_s) {
  Runner& self = ranks[rank];
  const Slot slot = self.slots[self.next];
  const auto i = static_cast<std::size_t>(slot.micro_batch);
  const bool forward = slot.pass == Pass::kForward;
  const bool weight = slot.pass == Pass::kBackwardWeight;
  const double ready_s = forward ? self.input_s[i] : (weight ? 0 : self.out_gradient_s[i]);
  if (ready_s == kNever) return false;
  const double backward_s = weight ? weight_s : input_s;
  const double both_s = slot.pass == Pass::kBackward ? weight_s : 0;
  self.now_s = std::max(self.now_s, ready_s) + (forward ? forward_s : backward_s + both_s);
  if (forward && rank + 1 < ranks.size()) {
    self.send_next_s = std::max(self.send_next_s, self.now_s) + send_s;
    ranks[rank + 1].input_s[i] = self.send_next_s;
  } else if (!forward && !weight && rank > 0) {
    self.send_prev_s = std::max(self.send_prev_s, self.now_s) + send_s;
    ranks[rank - 1].out_gradient_s[i] = self.send_prev_s;
  }
  ++self.next;
  return true;
}

// Longest path through the slots, each rank's in order: O(p m).
double LongestPath(ScheduleKind schedule, int p, int m, double forward_s, double input_s,
                   double weight_s, double send_s) {
  std::vector<Runner> ranks(static_cast<std::size_t>(p));
  const auto micro_batches = static_cast<std::size_t>(m);
  for (int r = 0; r < p; ++r) {
    Runner& rank = ranks[static_cast<std::size_t>(r)];
    rank.slots = MakeSlots(schedule, p, m, r);
    rank.input_s.assign(micro_batches, r == 0 ? 0.0 : kNever);
    rank.out_gradient_s.assign(micro_batches, r == p - 1 ? 0.0 : kNever);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      while (ranks[r].next < ranks[r].slots.size() &&
             RunSlot(ranks, r, forward_s, input_s, weight_s, send_s)) {
        moved = true;
      }
    }
  }
  double end_s = 0;
  for (const Runner& rank : ranks) {
    FT_CHECK(rank.next == rank.slots.size());
    end_s = std::max(end_s, rank.now_s);
  }
  return end_s;
}

}  // namespace

std::vector<Slot> MakeSlots(ScheduleKind schedule, int p, int m, int rank) {
  FT_CHECK(p >= 1 && m >= 1 && rank >= 0 && rank < p);
  switch (schedule) {
    case ScheduleKind::kGpipe:
      return GpipeSlots(p, m, rank);
    case ScheduleKind::k1f1b:
      return OneFOneBSlots(p, m, rank);
    case ScheduleKind::kZbH1:
      return ZbH1Slots(p, m, rank);
  }
  FT_CHECK(false);
  return {};
}

double Makespan(ScheduleKind schedule, int p, int m, double forward_s, double input_s,
                double weight_s, double send_s) {
  FT_CHECK(p >= 1 && m >= 1);
  const double backward_s = input_s + weight_s;
  const double both_s = forward_s + backward_s;
  if (schedule == ScheduleKind::kGpipe && (p == 1 || send_s <= std::min(forward_s, backward_s))) {
    return (m + p - 1) * both_s + 2 * (p - 1) * send_s;
  }
  if (schedule == ScheduleKind::k1f1b && (p == 1 || send_s <= forward_s)) {
    // The first micro-batch travels there and back over p - 1 links. The m - 1 others follow on the
    // longest chains F(i) .. B(i) F(i + k) .. B(i + k) of k <= p micro-batches, each of which
    // crosses k - 1 links there and back.
    const auto chains = CeilDiv(m - 1, p);
    return (m + p - 1) * both_s + 2 * static_cast<double>(p - 1 + m - 1 - chains) * send_s;
  }
  if (schedule == ScheduleKind::kZbH1 && (p == 1 || send_s == 0) && m >= p &&
      weight_s <= std::min(forward_s, input_s)) {
    return m * both_s + (p - 1) * (forward_s + input_s - weight_s);
  }
  return LongestPath(schedule, p, m, forward_s, input_s, weight_s, send_s);
}

}  // namespace foretrain

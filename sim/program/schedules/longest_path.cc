#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/result.h"
#include "sim/program/schedules/placement.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Plays the slots of all ranks: each rank's run one after the other, when their inputs have come.
class Player {
 public:
  Player(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times)
      : placement_(schedule, shape.p, shape.vpp), shape_(shape), times_(times) {
    const int share = placement_.ChunksOfShare();
    times_.forward_s /= share;
    times_.input_s /= share;
    times_.weight_s /= share;
    const auto cells = static_cast<std::size_t>(shape.p * placement_.chunks() * shape.m);
    input_s_.assign(cells, kNever);
    gradient_s_.assign(cells, kNever);
    for (int r = 0; r < shape.p; ++r) {
      ranks_.push_back({MakeSlots(schedule, shape, r)});
      for (int c = 0; c < placement_.chunks(); ++c) {
        const int stage = placement_.StageOf(r, c);
        for (int i = 0; i < shape.m; ++i) {
          if (stage == 0) input_s_[Cell({r, c}, i)] = 0;
          if (stage == placement_.stages() - 1) gradient_s_[Cell({r, c}, i)] = 0;
        }
      }
    }
  }

  double Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.p; ++r) {
        while (Step(r)) moved = true;
      }
    }
    double end_s = 0;
    for (const Rank& rank : ranks_) {
      FT_CHECK(rank.next == rank.slots.size());
      end_s = std::max(end_s, rank.now_s);
    }
    return end_s;
  }

 private:
  struct Rank {
    std::vector<Slot> slots;
    std::size_t next = 0;
    double now_s = 0;
    double send_next_s = 0;  // when the link to the next rank is free
    double send_prev_s = 0;
  };

  std::size_t Cell(const StagePlace& at, int micro_batch) const {
    return static_cast<std::size_t>((at.rank * placement_.chunks() + at.chunk) * shape_.m +
                                    micro_batch);
  }

  double Ready(int r, const Slot& slot) const {
    const std::size_t cell = Cell({r, slot.chunk}, slot.micro_batch);
    if (slot.pass == Pass::kForward) return input_s_[cell];
    return slot.pass == Pass::kBackwardWeight ? 0 : gradient_s_[cell];
  }

  double Length(const Slot& slot) const {
    switch (slot.pass) {
      case Pass::kForward:
        return times_.forward_s;
      case Pass::kBackwardInput:
        return times_.input_s;
      case Pass::kBackwardWeight:
        return times_.weight_s;
      default:
        return times_.input_s + times_.weight_s;
    }
  }

  // Runs the rank's next slot or pair, if its inputs have come.
  bool Step(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.next == rank.slots.size()) return false;
    const std::size_t count = rank.slots[rank.next].paired ? 2 : 1;
    double start_s = rank.now_s, length_s = 0;
    for (std::size_t i = 0; i < count; ++i) {
      start_s = std::max(start_s, Ready(r, rank.slots[rank.next + i]));
      length_s += Length(rank.slots[rank.next + i]);
    }
    if (start_s == kNever) return false;
    rank.now_s = start_s + length_s;
    for (std::size_t i = 0; i < count; ++i) Deliver(r, rank.slots[rank.next + i]);
    rank.next += count;
    return true;
  }

  void Deliver(int r, const Slot& slot) {
    if (slot.pass == Pass::kBackwardWeight) return;
    const StagePlace from{r, slot.chunk};
    const bool forward = slot.pass == Pass::kForward;
    const int stage = placement_.StageOf(r, slot.chunk) + (forward ? 1 : -1);
    if (stage < 0 || stage == placement_.stages()) return;
    const StagePlace to = placement_.PlaceOf(stage, placement_.DirectionOf(slot.chunk));
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    double arrival_s = rank.now_s;
    if (to.rank != r) {
      double& link_s = placement_.GoesToNext(from, to) ? rank.send_next_s : rank.send_prev_s;
      arrival_s = link_s = std::max(link_s, rank.now_s) + times_.send_s;
    }
    (forward ? input_s_ : gradient_s_)[Cell(to, slot.micro_batch)] = arrival_s;
  }

  Placement placement_;
  PipelineShape shape_;
  SlotTimes times_;
  std::vector<Rank> ranks_;
  std::vector<double> input_s_, gradient_s_;  // by place and micro-batch: when they have come
};

}  // namespace

double LongestPath(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times) {
  return Player(schedule, shape, times).Run();
}

}  // namespace foretrain

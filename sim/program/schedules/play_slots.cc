#include "sim/program/schedules/play_slots.h"

#include <algorithm>
#include <limits>

#include "base/result.h"
#include "sim/program/schedules/placement.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Event simulation whose events are slots. Ranks are visited in turn until none can run its next
// slot; a slot's times depend only on its own rank, its link and its inputs, so the order of visits
// does not matter.
class Player {
 public:
  // Only the inputs of the model's ends are ready at the start; all other arrivals are set by
  // Deliver.
  Player(ScheduleKind schedule, const PipelineShape& shape, std::span<const ChunkTimes> times,
         const HopTimes& hop)
      : placement_(schedule, shape.p, shape.vpp), shape_(shape), times_(times), hop_(hop) {
    FT_CHECK(times.size() == static_cast<std::size_t>(shape.p * placement_.chunks()));
    const auto cells = times.size() * static_cast<std::size_t>(shape.m);
    input_s_.assign(cells, kNever);
    gradient_s_.assign(cells, kNever);
    for (int r = 0; r < shape.p; ++r) {
      ranks_.push_back({MakeSlots(schedule, shape, r)});
      played_.spans.emplace_back().reserve(ranks_.back().slots.size());
      for (int c = 0; c < placement_.chunks(); ++c) {
        const int stage = placement_.StageOf(r, c);
        if (stage == 0) Fill(input_s_, {r, c});
        if (stage == placement_.stages() - 1) Fill(gradient_s_, {r, c});
      }
    }
  }

  // Ends when no rank can go on. The check stops a schedule that waits for ever, which would be a
  // bug in its slots.
  PlayedSlots Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.p; ++r) {
        while (Step(r)) moved = true;
      }
    }
    for (const Rank& rank : ranks_) {
      FT_CHECK(rank.next == rank.slots.size());
      played_.end_s = std::max(played_.end_s, rank.now_s);
    }
    return std::move(played_);
  }

 private:
  struct Rank {
    std::vector<Slot> slots;
    std::size_t next = 0;
    double now_s = 0;
    double send_next_s = 0;  // when the link to the next rank is free again
    double send_prev_s = 0;
  };

  std::size_t Place(const StagePlace& at) const {
    return static_cast<std::size_t>(at.rank * placement_.chunks() + at.chunk);
  }
  std::size_t Cell(const StagePlace& at, int micro_batch) const {
    return Place(at) * static_cast<std::size_t>(shape_.m) + static_cast<std::size_t>(micro_batch);
  }
  // The first stage's inputs and the last stage's gradients are there from the start.
  void Fill(std::vector<double>& arrivals, const StagePlace& at) {
    std::fill_n(arrivals.begin() + static_cast<std::ptrdiff_t>(Cell(at, 0)), shape_.m, 0.0);
  }

  // Start of a slot or transfer that is ready at `ready_s` on a rank or link that is free at
  // `free_s`. Waiting for the input costs a wake-up.
  double Start(double ready_s, double free_s) const {
    return ready_s > free_s ? ready_s + hop_.wake_s : free_s;
  }

  // When the slot's input has come: kNever if it has not, 0 for a weight gradient, which needs
  // nothing from another rank.
  double Ready(int r, const Slot& slot) const {
    const std::size_t cell = Cell({r, slot.chunk}, slot.micro_batch);
    if (slot.pass == Pass::kForward) return input_s_[cell];
    return slot.pass == Pass::kBackwardWeight ? 0 : gradient_s_[cell];
  }

  PassTime TimeOf(int r, const Slot& slot) const {
    const ChunkTimes& times = times_[Place({r, slot.chunk})];
    switch (slot.pass) {
      case Pass::kForward:
        return times.forward;
      case Pass::kBackwardInput:
        return times.input;
      case Pass::kBackwardWeight:
        return {times.weight_s, times.weight_s};
      default:
        return times.backward;
    }
  }

  // Runs the rank's next slot or pair if its inputs have come. Returns false if it has to wait or
  // the rank is done.
  bool Step(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.next == rank.slots.size()) return false;
    const std::span<const Slot> unit(&rank.slots[rank.next], rank.slots[rank.next].paired ? 2 : 1);
    double ready_s = 0, length_s = 0;
    for (const Slot& slot : unit) {
      ready_s = std::max(ready_s, Ready(r, slot));
      length_s += TimeOf(r, slot).length_s;
    }
    if (ready_s == kNever) return false;
    const double start_s = Start(ready_s, rank.now_s);
    rank.now_s = start_s + length_s;
    for (const Slot& slot : unit) {
      const bool pair = unit.size() == 2;
      Deliver(r, slot, start_s + (pair ? length_s : TimeOf(r, slot).output_s));
      played_.spans[static_cast<std::size_t>(r)].push_back({start_s, rank.now_s, ready_s, slot});
    }
    rank.next += unit.size();
    return true;
  }

  // Records when the output reaches the stage that reads it. Within a rank that is at once; between
  // ranks the link carries one tensor after the other.
  void Deliver(int r, const Slot& slot, double made_s) {
    if (slot.pass == Pass::kBackwardWeight) return;
    const StagePlace from{r, slot.chunk};
    const bool forward = slot.pass == Pass::kForward;
    const int stage = placement_.StageOf(r, slot.chunk) + (forward ? 1 : -1);
    if (stage < 0 || stage == placement_.stages()) return;
    const StagePlace to = placement_.PlaceOf(stage, placement_.DirectionOf(slot.chunk));
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    double arrival_s = made_s;
    if (to.rank != r) {
      double& link_s = placement_.GoesToNext(from, to) ? rank.send_next_s : rank.send_prev_s;
      arrival_s = Start(made_s, link_s) + hop_.send_s;
      link_s = arrival_s + hop_.gap_s;
    }
    (forward ? input_s_ : gradient_s_)[Cell(to, slot.micro_batch)] = arrival_s;
  }

  Placement placement_;
  PipelineShape shape_;
  std::span<const ChunkTimes> times_;
  HopTimes hop_;
  std::vector<Rank> ranks_;
  std::vector<double> input_s_, gradient_s_;  // arrival times, by (rank, chunk) and micro-batch
  PlayedSlots played_;
};

}  // namespace

PlayedSlots PlaySlots(ScheduleKind schedule, const PipelineShape& shape,
                      std::span<const ChunkTimes> times, const HopTimes& hop) {
  return Player(schedule, shape, times, hop).Run();
}

// Spreads a rank's times evenly over its chunks and plays the slots with sends alone.
double LongestPath(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times) {
  const Placement placement(schedule, shape.p, shape.vpp);
  const int share = placement.ChunksOfShare();
  const double forward_s = times.forward_s / share, input_s = times.input_s / share,
               weight_s = times.weight_s / share;
  ChunkTimes each;
  each.forward = {forward_s, forward_s};
  each.backward = {input_s + weight_s, input_s + weight_s};
  each.input = {input_s, input_s};
  each.weight_s = weight_s;
  const std::vector<ChunkTimes> all(static_cast<std::size_t>(shape.p * placement.chunks()), each);
  return PlaySlots(schedule, shape, all, {times.send_s}).end_s;
}

}  // namespace foretrain

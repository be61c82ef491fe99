// Visits the slots of all ranks of a pipeline in dependency order and hands outputs to the stages
// that read them. Its users say what a time is and how long passes and sends take: play_slots.h,
// and the search's step_path.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "sim/config/schedule/placement.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {

// `Time` is a moment; Time{} is the start of the step. Ranks are visited in turn, and each runs
// until an input is missing. A slot's times depend only on its own rank, its link and its inputs,
// so the order of visits does not matter. O(slots of all ranks).
template <typename Time>
class SlotWalk {
 public:
  struct Rank {
    std::vector<Slot> slots;
    std::size_t next = 0;
    Time now{};
    Time send_next{};  // when the link to the next rank is free again
    Time send_prev{};
  };

  // `never`: the arrival of an input that no stage has made yet. Only the inputs of the model's
  // ends are there from the start. All other arrivals are set by Deliver.
  SlotWalk(ScheduleKind schedule, const PipelineShape& shape, const Time& never)
      : placement_(PlacementOf(schedule, shape)), shape_(shape) {
    const auto cells = static_cast<std::size_t>(shape.p * placement_.chunks() * shape.m);
    input_.assign(cells, never);
    gradient_.assign(cells, never);
    for (int r = 0; r < shape.p; ++r) {
      ranks_.push_back({MakeSlots(schedule, shape, r)});
      for (int c = 0; c < placement_.chunks(); ++c) {
        const int stage = placement_.StageOf(r, c);
        if (stage == 0) Fill(input_, {r, c});
        if (stage == placement_.stages() - 1) Fill(gradient_, {r, c});
      }
    }
  }

  const std::vector<Rank>& ranks() const { return ranks_; }
  const Placement& placement() const { return placement_; }

  // Calls `play(r, rank, unit)` for each slot or pair of rank r, in order. It returns false if an
  // input is missing. The check stops a schedule that waits for ever, which would be a bug in its
  // slots.
  template <typename Play>
  void Run(const Play& play) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.p; ++r) {
        Rank& rank = ranks_[static_cast<std::size_t>(r)];
        while (rank.next < rank.slots.size()) {
          const Slot* const first = &rank.slots[rank.next];
          const std::span<const Slot> unit(first, first->paired ? 2 : 1);
          if (!play(r, rank, unit)) break;
          rank.next += unit.size();
          moved = true;
        }
      }
    }
    for (const Rank& rank : ranks_) FT_CHECK(rank.next == rank.slots.size());
  }

  // When the slot's input has come. Weight halves need nothing from another rank.
  Time Ready(int r, const Slot& slot) const {
    const std::size_t cell = Cell({r, slot.chunk}, slot.micro_batch);
    if (slot.pass == Pass::kForward) return input_[cell];
    return slot.pass == Pass::kBackwardWeight ? Time{} : gradient_[cell];
  }

  // Records when the output of a slot, made at `made`, reaches the stage that reads it. Chunks on
  // the same rank hand over at once. Between ranks `send(made, link)` returns the arrival and
  // updates the time when the link is free again: it carries one tensor after the other.
  template <typename Send>
  void Deliver(int r, const Slot& slot, const Time& made, const Send& send) {
    if (slot.pass == Pass::kBackwardWeight) return;
    const StagePlace from{r, slot.chunk};
    const bool forward = slot.pass == Pass::kForward;
    const int stage = placement_.StageOf(r, slot.chunk) + (forward ? 1 : -1);
    if (stage < 0 || stage == placement_.stages()) return;
    const StagePlace to = placement_.PlaceOf(stage, placement_.DirectionOf(slot.chunk));
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    Time arrival = made;
    if (to.rank != r) {
      arrival = send(made, placement_.GoesToNext(from, to) ? rank.send_next : rank.send_prev);
    }
    (forward ? input_ : gradient_)[Cell(to, slot.micro_batch)] = arrival;
  }

 private:
  std::size_t Cell(const StagePlace& at, int micro_batch) const {
    return static_cast<std::size_t>((at.rank * placement_.chunks() + at.chunk) * shape_.m +
                                    micro_batch);
  }
  void Fill(std::vector<Time>& arrivals, const StagePlace& at) {
    std::fill_n(arrivals.begin() + static_cast<std::ptrdiff_t>(Cell(at, 0)), shape_.m, Time{});
  }

  Placement placement_;
  PipelineShape shape_;
  std::vector<Rank> ranks_;
  std::vector<Time> input_, gradient_;  // arrivals, by (rank, chunk) and micro-batch
};

}  // namespace foretrain

#include "sim/search/evaluate/step_path.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/result.h"
#include "sim/program/schedules/placement.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kSends = -1;  // marks a send in Node::chunk_class

// A pass or send, and the node that it waited for; -1: it waited for nothing.
struct Node {
  std::int32_t before = -1;
  std::int16_t chunk_class = kSends;
  std::int16_t pass = 0;
};
// A time, and the node that ends at it.
struct Instant {
  double seconds = 0;
  std::int32_t node = -1;
};
Instant Later(const Instant& a, const Instant& b) { return b.seconds > a.seconds ? b : a; }

// Plays the slots of all ranks in dependency order. Each pass starts at the latest of its inputs
// and remembers that node. The chain of these nodes from the last end is the critical path. Links
// are queues: one send at a time per direction.
class Player {
 public:
  Player(ScheduleKind schedule, const PipelineShape& shape,
         const std::vector<std::vector<int>>& classes, const std::vector<PassSeconds>& times,
         double send_s)
      : placement_(schedule, shape.p, shape.vpp),
        shape_(shape),
        classes_(classes),
        times_(times),
        send_s_(send_s) {
    const auto cells = static_cast<std::size_t>(shape.p * placement_.chunks() * shape.m);
    input_.assign(cells, {kNever, -1});
    gradient_.assign(cells, {kNever, -1});
    for (int r = 0; r < shape.p; ++r) {
      ranks_.push_back({MakeSlots(schedule, shape, r), 0, {}, {}, {}});
      for (int c = 0; c < placement_.chunks(); ++c) {
        const int stage = placement_.StageOf(r, c);
        for (int i = 0; i < shape.m; ++i) {
          if (stage == 0) input_[Cell({r, c}, i)] = {};
          if (stage == placement_.stages() - 1) gradient_[Cell({r, c}, i)] = {};
        }
      }
    }
  }

  // Ranks take turns and each runs until an input is missing. A valid schedule cannot deadlock,
  // which the check below asserts. Then the chain is walked back to count passes and sends.
  StepPath Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.p; ++r) {
        while (Step(r)) moved = true;
      }
    }
    Instant end;
    for (const Rank& rank : ranks_) {
      FT_CHECK(rank.next == rank.slots.size());
      end = Later(end, rank.now);
    }
    StepPath way{end.seconds, std::vector<PassSeconds>(times_.size(), PassSeconds{}), 0};
    for (std::int32_t at = end.node; at >= 0; at = nodes_[static_cast<std::size_t>(at)].before) {
      const Node& node = nodes_[static_cast<std::size_t>(at)];
      if (node.chunk_class == kSends) {
        ++way.sends;
      } else {
        ++way.passes[static_cast<std::size_t>(node.chunk_class)]
                    [static_cast<std::size_t>(node.pass)];
      }
    }
    return way;
  }

 private:
  struct Rank {
    std::vector<Slot> slots;
    std::size_t next = 0;
    Instant now;
    Instant send_next;  // when the link to the next rank is free
    Instant send_prev;  // when the link to the previous rank is free
  };

  std::size_t Cell(const StagePlace& at, int micro_batch) const {
    return static_cast<std::size_t>((at.rank * placement_.chunks() + at.chunk) * shape_.m +
                                    micro_batch);
  }

  // When the slot's input has arrived; weight halves need none.
  Instant Ready(int r, const Slot& slot) const {
    const std::size_t cell = Cell({r, slot.chunk}, slot.micro_batch);
    if (slot.pass == Pass::kForward) return input_[cell];
    return slot.pass == Pass::kBackwardWeight ? Instant{} : gradient_[cell];
  }

  // Appends a node that begins at `start` and remembers its predecessor.
  Instant After(const Instant& start, int chunk_class, ChunkPass pass) {
    nodes_.push_back(
        {start.node, static_cast<std::int16_t>(chunk_class), static_cast<std::int16_t>(pass)});
    const double length_s =
        chunk_class == kSends ? send_s_ : times_[static_cast<std::size_t>(chunk_class)][pass];
    return {start.seconds + length_s, static_cast<std::int32_t>(nodes_.size()) - 1};
  }

  static ChunkPass PassOf(const Slot& slot, bool in_pair) {
    if (slot.pass == Pass::kForward) return in_pair ? kPairF : kF;
    if (slot.pass == Pass::kBackwardInput) return kI;
    if (slot.pass == Pass::kBackwardWeight) return kW;
    return in_pair ? kPairB : kB;
  }

  // Runs the rank's next slot or pair if its inputs are there. A pair starts when both are.
  bool Step(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.next == rank.slots.size()) return false;
    const std::size_t count = rank.slots[rank.next].paired ? 2 : 1;
    Instant now = rank.now;
    for (std::size_t i = 0; i < count; ++i) now = Later(now, Ready(r, rank.slots[rank.next + i]));
    if (now.seconds == kNever) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const Slot& slot = rank.slots[rank.next + i];
      const int chunk_class =
          classes_[static_cast<std::size_t>(r)][static_cast<std::size_t>(slot.chunk)];
      now = After(now, chunk_class, PassOf(slot, count == 2));
    }
    rank.now = now;
    for (std::size_t i = 0; i < count; ++i) Deliver(r, rank.slots[rank.next + i]);
    rank.next += count;
    return true;
  }

  // Chunks on the same rank hand over at once; others pay for a send on the link between the ranks.
  void Deliver(int r, const Slot& slot) {
    if (slot.pass == Pass::kBackwardWeight) return;
    const StagePlace from{r, slot.chunk};
    const bool forward = slot.pass == Pass::kForward;
    const int stage = placement_.StageOf(r, slot.chunk) + (forward ? 1 : -1);
    if (stage < 0 || stage == placement_.stages()) return;
    const StagePlace to = placement_.PlaceOf(stage, placement_.DirectionOf(slot.chunk));
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    Instant arrival = rank.now;
    if (to.rank != r) {
      Instant& link = placement_.GoesToNext(from, to) ? rank.send_next : rank.send_prev;
      arrival = link = After(Later(rank.now, link), kSends, kF);
    }
    (forward ? input_ : gradient_)[Cell(to, slot.micro_batch)] = arrival;
  }

  Placement placement_;
  PipelineShape shape_;
  const std::vector<std::vector<int>>& classes_;
  const std::vector<PassSeconds>& times_;
  double send_s_;
  std::vector<Rank> ranks_;
  std::vector<Instant> input_, gradient_;  // arrival, by place and micro-batch
  std::vector<Node> nodes_;
};

}  // namespace

StepPath FindStepPath(ScheduleKind schedule, const PipelineShape& shape,
                      const std::vector<std::vector<int>>& classes,
                      const std::vector<PassSeconds>& times, double send_s) {
  return Player(schedule, shape, classes, times, send_s).Run();
}

}  // namespace foretrain

#include "sim/search/evaluate/step_path.h"

#include <cstdint>
#include <limits>
#include <span>

#include "sim/program/schedules/slot_walk.h"

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

ChunkPass PassOf(const Slot& slot, bool in_pair) {
  if (slot.pass == Pass::kForward) return in_pair ? kPairF : kF;
  if (slot.pass == Pass::kBackwardInput) return kI;
  if (slot.pass == Pass::kBackwardWeight) return kW;
  return in_pair ? kPairB : kB;
}

// Walks the chain back from the last end, to count passes and sends.
StepPath CountBack(const Instant& end, const std::vector<Node>& nodes, std::size_t classes) {
  StepPath way{end.seconds, std::vector<PassSeconds>(classes, PassSeconds{}), 0};
  for (std::int32_t at = end.node; at >= 0; at = nodes[static_cast<std::size_t>(at)].before) {
    const Node& node = nodes[static_cast<std::size_t>(at)];
    if (node.chunk_class == kSends) {
      ++way.sends;
    } else {
      ++way.passes[static_cast<std::size_t>(node.chunk_class)][static_cast<std::size_t>(node.pass)];
    }
  }
  return way;
}

}  // namespace

// Each pass starts at the latest of its inputs and remembers that node. The chain of these nodes
// from the last end is the critical path. Links are queues: one send at a time per direction.
StepPath FindStepPath(ScheduleKind schedule, const PipelineShape& shape,
                      const std::vector<std::vector<int>>& classes,
                      const std::vector<PassSeconds>& times, double send_s) {
  std::vector<Node> nodes;
  // Appends a node that begins at `start` and remembers its predecessor.
  const auto after = [&](const Instant& start, int chunk_class, ChunkPass pass, double length_s) {
    nodes.push_back(
        {start.node, static_cast<std::int16_t>(chunk_class), static_cast<std::int16_t>(pass)});
    return Instant{start.seconds + length_s, static_cast<std::int32_t>(nodes.size()) - 1};
  };
  const auto send = [&](const Instant& made, Instant& link) {
    return link = after(Later(made, link), kSends, kF, send_s);
  };
  SlotWalk<Instant> walk(schedule, shape, {kNever, -1});
  walk.Run([&](int r, SlotWalk<Instant>::Rank& rank, std::span<const Slot> unit) {
    Instant now = rank.now;  // a pair starts when both inputs are there
    for (const Slot& slot : unit) now = Later(now, walk.Ready(r, slot));
    if (now.seconds == kNever) return false;
    for (const Slot& slot : unit) {
      const int of = classes[static_cast<std::size_t>(r)][static_cast<std::size_t>(slot.chunk)];
      const ChunkPass pass = PassOf(slot, unit.size() == 2);
      now = after(now, of, pass, times[static_cast<std::size_t>(of)][pass]);
    }
    rank.now = now;
    for (const Slot& slot : unit) walk.Deliver(r, slot, now, send);
    return true;
  });
  Instant end;
  for (const auto& rank : walk.ranks()) end = Later(end, rank.now);
  return CountBack(end, nodes, times.size());
}

}  // namespace foretrain

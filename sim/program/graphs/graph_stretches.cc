#include "sim/program/graphs/graph_stretches.h"

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace foretrain {
namespace {

constexpr std::int16_t kMaxTogether = std::numeric_limits<std::int16_t>::max();

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// An op is steady if nothing keeps it out of a graph; waits and wakes are filled in by
// GraphStretches.
std::vector<StretchOp> StretchOpsOf(const Program& program, const RankProgram& rank) {
  std::vector<StretchOp> ops;
  ops.reserve(At(rank.op_count));
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    for (const Op& op : program.blocks[At(rank.step[i].block)].ops) {
      ops.push_back({.instruction = static_cast<std::int32_t>(i),
                     .queue = op.queue,
                     .steady = WhyNotInGraph(op).empty()});
    }
  }
  return ops;
}

// Ops that take their number of rows from a router's counts, which change every step.
bool RowsFollowCounts(const Op& op) {
  switch (op.kind) {
    case OpKind::kGeluForward:
    case OpKind::kGeluBackward:
    case OpKind::kSwigluForward:
    case OpKind::kSwigluBackward:
    case OpKind::kQuantize:
      return op.shape.members > 0;
    default:
      return false;
  }
}

}  // namespace

// Queues are FIFO, so of all sources on one queue only the newest matters. A larger distance means
// an earlier step, hence the comparison by (-distance, from).
std::vector<QueueWait> WaitsAcrossQueues(const Program& program, const RankProgram& rank) {
  std::vector<Queue> queues;
  queues.reserve(At(rank.op_count));
  for (const Instruction& instruction : rank.step) {
    for (const Op& op : program.blocks[At(instruction.block)].ops) queues.push_back(op.queue);
  }
  std::map<std::pair<std::int32_t, Queue>, QueueWait> newest;  // by (to, queue of from)
  const auto add = [&](std::int32_t from, std::int32_t to, std::int32_t distance) {
    const Queue source = queues[At(from)];
    if (source == queues[At(to)]) return;
    const QueueWait wait{from, to, distance};
    QueueWait& old = newest.try_emplace(std::pair{to, source}, wait).first->second;
    if (std::tuple(-distance, from) > std::tuple(-old.distance, old.from)) old = wait;
  };
  for (const Edge& edge : rank.edges) add(edge.from, edge.to, edge.distance);
  for (const Instruction& instruction : rank.step) {
    if (instruction.after < 0) continue;
    // The throttle: the first op waits for all ops of the earlier instruction.
    const Instruction& earlier = rank.step[At(instruction.after)];
    const auto ops = static_cast<std::int32_t>(program.blocks[At(earlier.block)].ops.size());
    for (std::int32_t i = 0; i < ops; ++i) add(earlier.first_op + i, instruction.first_op, 0);
  }
  std::vector<QueueWait> waits;
  for (const auto& [key, wait] : newest) waits.push_back(wait);
  return waits;
}

// A graph replays the same kernels with the same arguments. Anything that the host decides anew
// each step must stay outside.
std::string_view WhyNotInGraph(const Op& op) {
  if (op.queue == Queue::kHost || op.queue == Queue::kCpu || op.queue == Queue::kNvme) {
    return "the host's threads do it";
  }
  if (IsCommunication(op.kind)) return "its members meet on the host";
  if (op.dropout > 0.0F) return "it draws other random numbers each step";
  if (RowsFollowCounts(op)) return "how many rows it has follows counts";
  switch (FamilyOf(op.kind)) {
    case OpFamily::kUpdate:
      return "its learning rate and its step's number change";
    case OpFamily::kCopy:
    case OpFamily::kHost:
      return "the host takes part in it";
    case OpFamily::kOpaque:
      return "it is no kernel";
    default:
      return {};
  }
}

// One pass with an open stretch per queue. A stretch ends before an op that waits for another queue
// and after an op that another queue waits for; otherwise a graph would wait earlier or signal
// later than its ops do.
std::vector<std::int16_t> StretchesOf(std::span<const StretchOp> ops) {
  std::vector<std::int16_t> together(ops.size(), 1);
  struct Open {
    std::size_t first = 0;
    bool goes_on = false;
  };
  std::array<Open, kQueueCount> open{};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const StretchOp& op = ops[i];
    Open& at = open[static_cast<std::size_t>(op.queue)];
    const bool joins = at.goes_on && op.steady && !op.waits &&
                       ops[at.first].instruction == op.instruction &&
                       together[at.first] < kMaxTogether;
    if (joins) {
      ++together[at.first];
      together[i] = 0;
    } else {
      at.first = i;
    }
    at.goes_on = op.steady && !op.wakes;
  }
  return together;
}

std::vector<std::int16_t> GraphStretches(const Program& program, const RankProgram& rank) {
  std::vector<StretchOp> ops = StretchOpsOf(program, rank);
  for (const QueueWait& wait : WaitsAcrossQueues(program, rank)) {
    ops[At(wait.to)].waits = true;
    ops[At(wait.from)].wakes = true;
  }
  return StretchesOf(ops);
}

std::int64_t OpsInGraphs(const Program& program, const RankProgram& rank) {
  std::int64_t ops = 0;
  for (const std::int16_t together : GraphStretches(program, rank)) {
    if (together > 1) ops += together;
  }
  return ops;
}

}  // namespace foretrain

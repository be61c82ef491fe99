// Groups ops that a device may execute as one graph: consecutive ops of a queue that repeat
// unchanged each step. Also lists the waits between queues, which cut graphs. Leaves out creating
// and launching graphs (runtime/executor/worker_graph.cc) and their cost (sim/cost/).
//
//   compute: [norm gemm rope attention gemm] | reduce waits | [gemm gemm ...] | adamw
//             one graph                        a cut          another           by itself
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

// Op `to` waits for op `from` of another queue to have ended `distance` steps earlier. Op numbers
// count through the rank's step.
struct QueueWait {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t distance = 0;

  bool operator==(const QueueWait&) const = default;
};

// The waits of each op, at most one per source queue: the newest, since the others have ended
// before it. Sorted by `to`, then by the queue of `from`. O(edges log edges).
std::vector<QueueWait> WaitsAcrossQueues(const Program& program, const RankProgram& rank);

// Reason why an op cannot be part of a graph, which fixes addresses, sizes and numbers when it is
// created. Empty if it can.
std::string_view WhyNotInGraph(const Op& op);

// The properties of an op that decide its stretch.
struct StretchOp {
  std::int32_t instruction = 0;
  Queue queue = Queue::kCompute;
  bool steady = false;  // WhyNotInGraph is empty
  bool waits = false;   // for an op of another queue
  bool wakes = false;   // an op of another queue waits for it
};

// For each op, the number of ops of its queue in the graph that starts with it. A graph has
// consecutive steady ops of one instruction and queue. Only the first may wait for another queue
// and only the last may be waited for, so that the order across queues is unchanged. 1: the op runs
// by itself. 0: it belongs to the graph of an earlier op.
std::vector<std::int16_t> StretchesOf(std::span<const StretchOp> ops);

// StretchesOf a rank's step, by op number. O((ops + edges) log edges).
std::vector<std::int16_t> GraphStretches(const Program& program, const RankProgram& rank);

// Number of ops of a rank's step that are in graphs.
std::int64_t OpsInGraphs(const Program& program, const RankProgram& rank);

}  // namespace foretrain

// Which ops a device may be given as one graph: those that do the same again each step, one behind
// the other on a queue; and what ops wait for on other queues, which cuts graphs. Leaves out making
// and launching graphs (runtime/executor/worker_graph.cc) and what they cost (sim/cost/).
//
//   compute: [norm gemm rope attention gemm] | reduce waits | [gemm gemm ...] | adamw
//             one graph                        a cut          another           by itself
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

// `to` waits for `from` of another queue to have ended `distance` steps earlier. Op numbers count
// through the rank's step.
struct QueueWait {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t distance = 0;

  bool operator==(const QueueWait&) const = default;
};

// Of all that an op waits for on one queue the newest, behind which the others have ended. Sorted
// by `to`, then by the queue of `from`. O(edges log edges).
std::vector<QueueWait> WaitsAcrossQueues(const Program& program, const RankProgram& rank);

// Why an op cannot be part of a graph, which has addresses, sizes and numbers of the time that it
// was made; empty where it can.
std::string_view WhyNotInGraph(const Op& op);

// What a stretch needs to know of an op.
struct StretchOp {
  std::int32_t instruction = 0;
  Queue queue = Queue::kCompute;
  bool steady = false;  // WhyNotInGraph has nothing against it
  bool waits = false;   // for another queue
  bool wakes = false;   // is waited for by one
};

// How many ops of its queue, from each op on, are one graph: consecutive steady ops of one
// instruction and queue, of which none but the first waits for another queue and none but the last
// is waited for by one, so that the order of queues stays what it is. 1: the op is by itself; 0: it
// is in the graph of an earlier one.
std::vector<std::int16_t> StretchesOf(std::span<const StretchOp> ops);

// The same of a rank's step, by op number. O((ops + edges) log edges).
std::vector<std::int16_t> GraphStretches(const Program& program, const RankProgram& rank);

// How many ops of a rank's step are in graphs, each once for each micro-batch.
std::int64_t OpsInGraphs(const Program& program, const RankProgram& rank);

}  // namespace foretrain

// Which ops a device may be given as one graph: those that do the same again each step, one behind
// the other on a queue. Leaves out making and launching graphs (runtime/executor/worker_graph.cc).
//
//   compute: [norm gemm rope attention gemm] | reduce waits | [gemm gemm ...] | adamw
//             one graph                        a cut          another           by itself
#pragma once

#include <string_view>

#include "sim/program/op.h"

namespace foretrain {

struct RankPlan;

// Why an op cannot be part of a graph, which has addresses, sizes and numbers of the time that it
// was made; empty where it can. What follows counts of a router is known to its call alone
// (KernelCall::counts).
std::string_view WhyNotInGraph(const Op& op);

// Fills PlannedOp::together: of consecutive steady ops of one instruction and queue, of which none
// but the first waits for another queue and none but the last is waited for by one, so that the
// order of queues stays what it is; at least two.
void MarkStretches(RankPlan& plan);

}  // namespace foretrain

// Simulates a linked Program with given op costs. The discrete-event simulation has hosts, queues,
// peers and shared machines. sim/cost computes the costs; traces/metrics evaluates the timeline.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

struct StepGraph;

// Measured seconds that replace those of the cost model, op by op. The outer index is the position
// in Program::ranks; an empty outer or inner vector replaces nothing. The inner index is the op's
// number in the rank's step. A vector with the length of k steps gives step s the values of step s
// mod k. NaN: use the cost model.
struct Replay {
  std::vector<std::vector<double>> seconds{};   // op time; collectives, p2p: from last arrival
  std::vector<std::vector<double>> launch_s{};  // host time to issue the op
};

struct SimulateOptions {
  int min_steps = 3;  // >= 1
  int max_steps = 8;  // >= min_steps; at most 64
  // Relative difference up to which two periods count as equal. The period is stable when it equals
  // the one before, or when lengths alternate and each equals the one two steps before.
  double tolerance = 1e-4;
  // Ops that the host may issue after the oldest unfinished one; transfers do not hold it up. >= 1.
  int run_ahead = kRunAheadOps;
  bool contention = true;          // ops of ranks that share a machine slow one another down
  bool timeline = true;            // fill Simulation::timeline
  bool last_step = false;          // with timeline: only the last step, which is the reported one
  bool launches = false;           // with timeline: spans of launches on the host queue
  int threads = 1;                 // threads for independent parts of the result; >= 1
  const Replay* replay = nullptr;  // borrowed; null: no replay
  // Asked before the simulation and every few thousand events, on the caller's thread; true ends it
  // with kAborted. Empty: never asked.
  std::function<bool()> cancelled = {};
};

// Totals of one rank in the last simulated step.
struct RankSummary {
  int rank = 0;
  double start_s = 0;  // end of the rank's previous step
  double end_s = 0;
  std::array<double, kOpClassCount> busy_s{};  // sums of durations; overlapping queues both count
  double compute_s = 0;                        // compute queue only
  double host_s = 0;                           // launches and work on the host queue
  double idle_s = 0;                           // end_s - start_s - compute_s
};

struct Simulation {
  double step_s = 0;               // period of the steady state; alternating steps: their mean
  double first_step_s = 0;         // from the start of the run to the end of its first step
  int steps = 0;                   // number of simulated steps; `ranks` is about the last one
  bool stable = false;             // false: no two periods agreed, and step_s is a mean
  std::vector<RankSummary> ranks;  // in the order of Program::ranks
  Timeline timeline;               // empty unless asked for
};

// Simulates steps of `program` until their period is stable.
//
//   program  linked: first_op, op_count, lives and edges are filled. A rank that is left out is
//            assumed to arrive at collectives together with the rank that represents it.
//   costs    row_of has a row for each op of each rank.
//
// The host of a rank issues ops in order; each takes its launch time. It issues at most `run_ahead`
// ops after the oldest unfinished one. Ops on the host queue run on the host, which waits for them.
// Any other op starts when it has been issued, its queue is free and its edges have ended. A
// collective or transfer also waits until the k-th op of every member on its (group, queue) is
// ready. Ops of one domain share it as a fluid: the number of busy threads sets the rate of each
// (contention.h). Hosts that launch ops do not count as busy. The period is the time between the
// ends of two steps on all ranks.
//
// Errors: kInvalidArgument: costs of another program, a group without this rank, peers with
// different numbers of ops, or a timeline with a rank above 32,767. kInfeasible: a deadlock; the
// message lists the blocked ops and what each waits for. kAborted: options.cancelled returned true.
// O((ops + edges) * steps * log(ranks)). Safe from any thread; equal inputs give equal bytes.
Result<Simulation> Simulate(const Program& program, const ProgramCosts& costs,
                            const SimulateOptions& options = {});

// Same as above, for a graph made from program and costs (step_graph.h). Both may lack what
// TakeStepGraph has removed.
Result<Simulation> Simulate(const Program& program, const StepGraph& graph,
                            const ProgramCosts& costs, const SimulateOptions& options = {});

}  // namespace foretrain

// Plays a linked Program against given op costs: a discrete-event simulation of host, queues, peers
// and shared machines. Leaves out what ops cost (sim/cost) and arithmetic on the result
// (traces/metrics).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/program.h"
#include "traces/timeline.h"

namespace foretrain {

struct StepGraph;

// Measured seconds that stand in for the model's, op by op. Outer index: position in
// Program::ranks; an empty outer or inner vector replaces nothing. Inner index: op number in the
// rank's step; a vector of k steps' length gives step s the values of step s mod k. NaN: use the
// model.
struct Replay {
  std::vector<std::vector<double>> seconds{};   // of the op; collectives and p2p: from last arrival
  std::vector<std::vector<double>> launch_s{};  // host time that issues the op
};

struct SimulateOptions {
  int min_steps = 3;  // >= 1
  int max_steps = 8;  // >= min_steps; at most 64
  // Relative difference up to which two periods in a row, or a period and the one before the last,
  // count as equal, and the period as stable.
  double tolerance = 1e-4;
  // Ops that the host may issue beyond the oldest unfinished one but transfers; >= 1.
  int run_ahead = kRunAheadOps;
  bool contention = true;  // ops of ranks that share a machine slow one another down
  bool timeline = true;    // fill Simulation::timeline
  bool last_step = false;  // with timeline: of the last step alone, the one that is reported
  bool launches = false;   // with timeline: spans of the host's launches, on the host queue
  int threads = 1;         // that may work on what does not hang together; >= 1
  const Replay* replay = nullptr;  // borrowed
};

// One rank in the last simulated step.
struct RankSummary {
  int rank = 0;
  double start_s = 0;  // end of the rank's step before
  double end_s = 0;
  std::array<double, kOpClassCount> busy_s{};  // sums of durations; queues that overlap count twice
  double compute_s = 0;                        // of them, on the compute queue
  double host_s = 0;                           // launches and work on the host
  double idle_s = 0;                           // end_s - start_s - compute_s
};

struct Simulation {
  double step_s = 0;        // the period of the steady state; where two take turns, their mean
  double first_step_s = 0;  // from the start of the run to the end of its first step
  int steps = 0;            // simulated; the last one is that of `ranks`
  bool stable = false;      // false: no two periods agreed, step_s is a mean
  std::vector<RankSummary> ranks;  // as Program::ranks
  Timeline timeline;               // empty unless asked for
};

// Simulates steps of `program` until their period is stable.
//
//   program  linked: first_op, op_count, lives and edges are filled. Ranks that are left out are
//            taken to arrive at collectives together with the rank that stands for them.
//   costs    row_of has a row for each op of each rank
//
// A rank's host issues its ops in order, each for its launch, at most `run_ahead` beyond the op
// that ended `run_ahead` before; ops on the host queue run on the host, which waits for them. Any
// other op starts when it has been issued, its queue is free, its edges are met and, for
// collectives and p2p, when the k-th op of every member on the (group, queue) is ready. Ops of one
// domain share it as a fluid: busy threads set the rate at which each progresses (contention.h);
// hosts that launch count for none.
// The period is the time between the ends of two steps, of all ranks.
//
// Errors: kInvalidArgument, costs that do not match the program, a group without this rank, peers
// with different numbers of ops, a timeline of a rank beyond 32,767; kInfeasible, a deadlock, with
// the blocked ops and what each waits for. O((ops + edges) * steps * log(ranks)); safe from any
// thread; same input, same bytes out.
Result<Simulation> Simulate(const Program& program, const ProgramCosts& costs,
                            const SimulateOptions& options = {});

// The same of a graph that was made of program and costs (step_graph.h), which may have lost what
// TakeStepGraph takes.
Result<Simulation> Simulate(const Program& program, const StepGraph& graph,
                            const ProgramCosts& costs, const SimulateOptions& options = {});

}  // namespace foretrain

// A program's step as flat arrays: for each op its queue, its predecessors and its peers. Leaves
// out times.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/program.h"

namespace foretrain {

// Ops are numbered through all ranks: first_op[rank index] + op number. A slot is one queue of one
// rank: rank index * kQueueCount + queue.
struct StepGraph {
  struct Node {
    std::int32_t slot = 0;
    std::int32_t channel = -1;    // rendezvous it takes part in; -1: none
    std::int32_t first_pred = 0;  // into preds; the next node's ends the run
    std::int32_t row = 0;         // of ProgramCosts
    std::int32_t part = -1;       // that begins with it
    OpClass op_class = OpClass::kMemoryBound;
    bool ahead = false;     // works for the next step
    bool contends = false;  // may slow others of its machine down, or be slowed down
  };
  struct Pred {
    std::int32_t from = 0;      // of the same rank
    std::int16_t distance = 0;  // steps
    std::int16_t queue = 0;     // of `from`
  };

  // The ops of an instruction, which others may have as well: alike in costs and in order.
  struct Run {
    struct Op {
      double seconds = 0;
      double launch_s = 0;
      std::int32_t first_pred = 0;  // into preds; the next op's ends the run
      std::uint8_t queue = 0;
      bool exported = false;  // another instruction waits for it, in some of the run's places
    };
    struct Lane {
      std::int32_t queue = 0;
      std::int32_t first = 0;  // op of the run
      std::int32_t ops = 0;
    };
    std::vector<Op> ops;              // and one more that ends the last run of preds
    std::vector<std::int32_t> preds;  // ops of the run
    std::vector<Lane> lanes;
    std::array<double, kOpClassCount> busy_s{};
    double compute_s = 0;
    double launch_s = 0;

    std::int32_t size() const { return static_cast<std::int32_t>(ops.size()) - 1; }
  };
  // An instruction of which no op meets peers, contends or runs on the host.
  struct Part {
    std::int32_t run = 0;
    std::int32_t first_op = 0;
    std::int32_t first_outer = 0;  // into outer; the next part's ends the run
  };
  // A predecessor in another instruction.
  struct Outer {
    std::int32_t to = 0;  // op of the run
    Pred pred;
  };

  std::vector<Node> nodes;  // and one more that ends the last run of preds
  std::vector<Pred> preds;
  std::vector<Run> runs;
  std::vector<Part> parts;  // and one more
  std::vector<Outer> outer;
  std::vector<std::int32_t> first_op;         // [rank index], and the number of ops
  std::vector<std::int32_t> queue_begin;      // [slot], and the number of ops: into queue_ops
  std::vector<std::int32_t> queue_ops;        // of each slot in issue order
  std::vector<std::int32_t> channel_members;  // [channel]: ranks of the program that take part
  bool overlaps = false;                      // some nodes are ahead

  int ranks() const { return static_cast<int>(first_op.size()) - 1; }
  std::int32_t ops() const { return first_op.back(); }
};

// Errors: those of Simulate about program and costs. O(ops + edges).
Result<StepGraph> BuildStepGraph(const Program& program, const ProgramCosts& costs);

// Finds the parts of a graph that is complete but for them. O(ops + edges).
void FindParts(const Program& program, const ProgramCosts& costs, StepGraph& graph);

// The op `number` of `rank`: its place in the rank's step. O(log instructions).
OpRef RefOf(const RankProgram& rank, std::int32_t number);

}  // namespace foretrain

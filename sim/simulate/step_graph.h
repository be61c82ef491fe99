// A program's step as flat arrays: for each op its queue, its predecessors and its peers. Leaves
// out times.
#pragma once

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
    OpClass op_class = OpClass::kMemoryBound;
    bool ahead = false;     // works for the next step
    bool contends = false;  // may slow others of its machine down, or be slowed down
  };
  struct Pred {
    std::int32_t from = 0;      // of the same rank
    std::int16_t distance = 0;  // steps
    std::int16_t queue = 0;     // of `from`
  };

  std::vector<Node> nodes;  // and one more that ends the last run of preds
  std::vector<Pred> preds;
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

// The op `number` of `rank`: its place in the rank's step. O(log instructions).
OpRef RefOf(const RankProgram& rank, std::int32_t number);

}  // namespace foretrain

// A program's step as flat arrays: for each op its queue, its predecessors and its peers. Leaves
// out times.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/program.h"

namespace foretrain {

// Ops are numbered through all ranks: first_op[rank index] + op number. A slot is one queue of one
// rank: rank index * kQueueCount + queue.
struct StepGraph {
  // Steps have millions of these.
  struct Node {
    std::int32_t channel = -1;    // rendezvous it takes part in; -1: none
    std::int32_t first_pred = 0;  // into preds; the next node's ends the run
    std::int32_t row = 0;         // of ProgramCosts
    std::int32_t slot : 24 = 0;
    OpClass op_class : 5 = OpClass::kMemoryBound;
    bool ahead : 1 = false;        // works for the next step
    bool contends : 1 = false;     // may slow others of its machine down, or be slowed down
    bool begins_part : 1 = false;  // a part's first op
  };
  static_assert(sizeof(Node) == 16);
  static constexpr std::int32_t kMostSlot = (1 << 23) - 1;
  static constexpr std::int32_t kMostRanks = kMostSlot / kQueueCount;
  struct Pred {
    std::int32_t from : 27 = 0;     // of the same rank
    std::uint8_t queue : 4 = 0;     // of `from`
    std::uint8_t distance : 1 = 0;  // steps
  };
  static_assert(sizeof(Pred) == 4 && kQueueCount <= 16);
  static constexpr std::int32_t kMostOps = (1 << 26) - 1;

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

  // Numbers the ops whose end another op waits for, in their order, so that tables of ends hold
  // these alone.
  class Awaited {
   public:
    void Resize(std::int32_t ops) { bits_.assign(static_cast<std::size_t>(ops) / 64 + 1, 0); }
    void Insert(std::int32_t op) { bits_[Word(op)] |= Bit(op); }
    // When all are in. O(ops).
    void Count();

    bool Has(std::int32_t op) const { return (bits_[Word(op)] & Bit(op)) != 0; }
    // Of one that it has.
    std::size_t NumberOf(std::int32_t op) const {
      return before_[Word(op)] +
             static_cast<std::size_t>(std::popcount(bits_[Word(op)] & (Bit(op) - 1)));
    }
    std::size_t size() const { return size_; }

   private:
    static std::size_t Word(std::int32_t op) { return static_cast<std::size_t>(op) / 64; }
    static std::uint64_t Bit(std::int32_t op) { return std::uint64_t{1} << (op % 64); }

    std::vector<std::uint64_t> bits_;    // [op / 64]
    std::vector<std::uint32_t> before_;  // [op / 64]: how many ops before these
    std::size_t size_ = 0;
  };

  std::vector<Node> nodes;  // and one more that ends the last run of preds
  std::vector<Pred> preds;
  std::vector<Run> runs;
  std::vector<Part> parts;  // in the order of their ops, and one more
  std::vector<Outer> outer;
  std::vector<std::int32_t> first_op;         // [rank index], and the number of ops
  std::vector<std::int32_t> queue_begin;      // [slot], and the number of ops: into queue_ops
  std::vector<std::int32_t> queue_ops;        // of each slot in issue order
  std::vector<std::int32_t> channel_members;  // [channel]: ranks of the program that take part
  Awaited awaited;                            // those that are predecessors
  bool overlaps = false;                      // some nodes are ahead

  int ranks() const { return static_cast<int>(first_op.size()) - 1; }
  std::int32_t ops() const { return first_op.back(); }
  // The part that begins with `op`, which has one. O(log parts).
  std::int32_t PartAt(std::int32_t op) const;
};

// Errors: those of Simulate about program and costs. O(ops + edges).
Result<StepGraph> BuildStepGraph(const Program& program, const ProgramCosts& costs);

// The same, and leaves the program without edges and the costs without rows of ops: the graph has
// them, and of large programs both do not lie beside one another.
Result<StepGraph> TakeStepGraph(Program& program, ProgramCosts& costs);

// Finds the parts of a graph that is complete but for them. O(ops + edges).
void FindParts(const Program& program, const ProgramCosts& costs, StepGraph& graph);

// The op `number` of `rank`: its place in the rank's step. O(log instructions).
OpRef RefOf(const RankProgram& rank, std::int32_t number);

}  // namespace foretrain

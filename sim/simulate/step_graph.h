// A program's step as flat arrays: the queue, predecessors and peers of each op, without times.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Flat form of a step. Ops are numbered through all ranks: first_op[rank index] + op number in the
// rank. A slot is one queue of one rank: rank index * kQueueCount + queue.
struct StepGraph {
  // Kept small, because steps have millions of nodes.
  struct Node {
    std::int32_t channel = -1;    // number of its rendezvous; -1: none
    std::int32_t first_pred = 0;  // index into preds; the next node's first_pred ends the range
    std::int32_t row = 0;         // row of ProgramCosts
    std::int32_t slot : 24 = 0;
    OpClass op_class : 5 = OpClass::kMemoryBound;
    bool for_next_step : 1 = false;  // works for the next step
    bool contends : 1 = false;       // can slow down other ops of its machine, or be slowed down
    bool begins_part : 1 = false;    // first op of a part
  };
  static_assert(sizeof(Node) == 16);
  static constexpr std::int32_t kMaxSlot = (1 << 23) - 1;
  static constexpr std::int32_t kMaxRanks = kMaxSlot / kQueueCount;
  struct Pred {
    std::int32_t from : 27 = 0;     // op of the same rank
    std::uint8_t queue : 4 = 0;     // queue of `from`
    std::uint8_t distance : 1 = 0;  // number of steps back: 0 or 1
  };
  static_assert(sizeof(Pred) == 4 && kQueueCount <= 16);
  static constexpr std::int32_t kMaxOps = (1 << 26) - 1;

  // The ops of an instruction, shared by all instructions with equal costs in equal order.
  struct Run {
    struct Op {
      double seconds = 0;
      double launch_s = 0;
      std::int32_t first_pred = 0;  // index into preds; the next op's first_pred ends the range
      std::uint8_t queue = 0;
      bool exported = false;  // another instruction waits for it in some part with this run
    };
    struct Lane {
      std::int32_t queue = 0;
      std::int32_t first = 0;  // first op of the run on this queue
      std::int32_t ops = 0;
    };
    std::vector<Op> ops;              // plus one entry that ends the last range of preds
    std::vector<std::int32_t> preds;  // op indices within the run
    std::vector<Lane> lanes;
    std::array<double, kOpClassCount> busy_s{};
    double compute_s = 0;
    double launch_s = 0;

    std::int32_t size() const { return static_cast<std::int32_t>(ops.size()) - 1; }
  };
  // An instruction that can be played at once: no op meets peers, contends or runs on the host.
  struct Part {
    std::int32_t run = 0;
    std::int32_t first_op = 0;
    std::int32_t first_outer = 0;  // index into outer; the next part's first_outer ends the range
  };
  // A predecessor outside the part.
  struct Outer {
    std::int32_t to = 0;  // op index within the run
    Pred pred;
  };

  // Numbers the ops that other ops wait for. Tables of end times hold only these ops.
  class Awaited {
   public:
    void Resize(std::int32_t ops) { bits_.assign(static_cast<std::size_t>(ops) / 64 + 1, 0); }
    void Insert(std::int32_t op) { bits_[Word(op)] |= Bit(op); }
    // Must be called after the last Insert and before NumberOf. O(ops).
    void Count();

    bool Has(std::int32_t op) const { return (bits_[Word(op)] & Bit(op)) != 0; }
    // Number of an op for which Has is true. O(1): a count per 64 ops plus a count of bits.
    std::size_t NumberOf(std::int32_t op) const {
      return before_[Word(op)] +
             static_cast<std::size_t>(std::popcount(bits_[Word(op)] & (Bit(op) - 1)));
    }
    std::size_t size() const { return size_; }

   private:
    static std::size_t Word(std::int32_t op) { return static_cast<std::size_t>(op) / 64; }
    static std::uint64_t Bit(std::int32_t op) { return std::uint64_t{1} << (op % 64); }

    std::vector<std::uint64_t> bits_;    // [op / 64]
    std::vector<std::uint32_t> before_;  // [op / 64]: number of awaited ops before
    std::size_t size_ = 0;
  };

  std::vector<Node> nodes;  // plus one entry that ends the last range of preds
  std::vector<Pred> preds;
  std::vector<Run> runs;
  std::vector<Part> parts;  // in op order, plus one entry that ends the last range of outer
  std::vector<Outer> outer;
  std::vector<std::int32_t> first_op;     // [rank index]: first op; then the number of ops
  std::vector<std::int32_t> queue_begin;  // [slot]: index into queue_ops; then the number of ops
  std::vector<std::int32_t> queue_ops;    // ops of each slot in issue order
  std::vector<std::int32_t> channel_members;  // [channel]: number of ranks that take part
  Awaited awaited;                            // ops that are a predecessor of some op
  bool overlaps = false;                      // true: some nodes work ahead

  int ranks() const { return static_cast<int>(first_op.size()) - 1; }
  std::int32_t ops() const { return first_op.back(); }
  // Index of the part that starts with `op`, which must start one. O(log parts).
  std::int32_t PartAt(std::int32_t op) const;
};

// Builds the graph of a linked program. Errors: those of Simulate about program and costs. O(ops +
// edges).
Result<StepGraph> BuildStepGraph(const Program& program, const ProgramCosts& costs);

// Same as BuildStepGraph, but removes the edges of the program and the op rows of the costs. The
// graph has both, and large programs then need memory for one copy only.
Result<StepGraph> TakeStepGraph(Program& program, ProgramCosts& costs);

// Finds the parts of a graph that is otherwise complete. O(ops + edges).
void FindParts(const Program& program, const ProgramCosts& costs, StepGraph& graph);

// Place of op `number` in the step of `rank`. O(log instructions).
OpRef RefOf(const RankProgram& rank, std::int32_t number);

}  // namespace foretrain

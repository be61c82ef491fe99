#include "sim/program/link/wait_for_sums.h"

#include "sim/program/ir/rank_edges.h"

namespace foretrain {
namespace {

// Only the first compute op after a collective needs an edge; the others follow it on the compute
// queue.
void WaitForTensorSums(const Program& program, RankProgram& rank) {
  constexpr std::int32_t kNone = -1;
  for (const Instruction& instruction : rank.step) {
    if (instruction.key.kind != InstructionKind::kBlock) continue;
    const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
    std::int32_t sum = kNone;  // last collective that no compute op has waited for
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const auto number = instruction.first_op + static_cast<std::int32_t>(i);
      if (block.ops[i].op_class == OpClass::kTpComm) {
        sum = number;
      } else if (block.ops[i].queue == Queue::kCompute && sum != kNone) {
        rank.edges.push_back({sum, number, 0});
        sum = kNone;
      }
    }
  }
  SortEdges(rank);
}

}  // namespace

void WaitForTensorSums(Program& program) {
  for (RankProgram& rank : program.ranks) WaitForTensorSums(program, rank);
}

}  // namespace foretrain

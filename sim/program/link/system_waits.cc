#include "sim/program/link/system_waits.h"

#include <vector>

#include "sim/program/ir/rank_edges.h"

namespace foretrain {
namespace {

// Schedules whose systems wait for transfers between two passes. The others are designed to send
// during passes.
bool Waits(ScheduleKind schedule) {
  return schedule == ScheduleKind::kGpipe || schedule == ScheduleKind::k1f1b ||
         schedule == ScheduleKind::kInterleaved;
}

// A pass waits for every send issued since the pass before. Later passes follow it on the compute
// queue, so no further edges are needed.
void WaitForSends(const Program& program, RankProgram& rank) {
  const auto last_op = [&](const Instruction& instruction) {
    const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
    return instruction.first_op + static_cast<std::int32_t>(block.ops.size()) - 1;
  };
  std::vector<std::int32_t> sends;  // issued since the last pass
  for (const Instruction& instruction : rank.step) {
    if (instruction.key.kind == InstructionKind::kSend) {
      sends.push_back(last_op(instruction));
    } else if (instruction.key.kind == InstructionKind::kBlock) {
      for (const std::int32_t send : sends) {
        rank.edges.push_back({send, instruction.first_op, 0});
      }
      sends.clear();
    }
  }
  SortEdges(rank);
}

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

void WaitForSends(Program& program) {
  if (!Waits(program.plan.schedule)) return;
  for (RankProgram& rank : program.ranks) WaitForSends(program, rank);
}

void WaitForTensorSums(Program& program) {
  for (RankProgram& rank : program.ranks) WaitForTensorSums(program, rank);
}

}  // namespace foretrain

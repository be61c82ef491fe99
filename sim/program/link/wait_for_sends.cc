#include "sim/program/link/wait_for_sends.h"

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

}  // namespace

void WaitForSends(Program& program) {
  if (!Waits(program.plan.schedule)) return;
  for (RankProgram& rank : program.ranks) WaitForSends(program, rank);
}

}  // namespace foretrain

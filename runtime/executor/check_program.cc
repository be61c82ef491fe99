// Refuses programs that the executor cannot run, before any rank is planned.
#include <set>
#include <string>

#include "runtime/executor/rank_plan.h"

namespace foretrain {
namespace {

// The executor relies on placed buffers and consecutive op numbers: both come from linking.
Result<void> CheckRank(const Program& program, const RankProgram& rank) {
  const auto malformed = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank.rank) + ": " + what);
  };
  std::int64_t ops = 0;
  for (const Instruction& instruction : rank.step) {
    if (instruction.first_op != ops) return malformed("the program is not linked");
    ops += static_cast<std::int64_t>(
        program.blocks[static_cast<std::size_t>(instruction.block)].ops.size());
  }
  if (ops != rank.op_count) return malformed("the program is not linked");
  for (const Buffer& buffer : rank.buffers) {
    if (buffer.offset < 0 && (buffer.persistent || buffer.first_op >= 0) && buffer.bytes > 0) {
      return malformed("a buffer has no place; the program is not linked");
    }
  }
  return {};
}

}  // namespace

// All blocks are checked once, and not for each rank: ranks share them.
Result<void> CheckProgram(const Program& program, const FtDeviceApi& api) {
  if (const std::string part = WhyNotExecuted(program.model); !part.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "model " + program.model.name + ": " + part +
                    " is forecast, but no kernel computes it yet: it would train another model");
  }
  std::set<int> ranks;
  for (const RankProgram& rank : program.ranks) {
    FT_TRY(CheckRank(program, rank));
    ranks.insert(rank.rank);
  }
  for (const std::vector<int>& group : program.groups) {
    for (const int member : group) {
      if (ranks.count(member) != 0) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "the program holds representatives of its ranks alone: rank " +
                      std::to_string(member) + " is missing; compile it for all");
    }
  }
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) {
      const FtDeviceApi& runs_on = op.queue == Queue::kCpu ? HostApi(api) : api;
      if (const auto why = WhyUnsupported(runs_on, op)) {
        return Fail(ErrorCode::kUnsupported,
                    *why + ", which op " + op.name + " of " + block.name + " needs");
      }
    }
  }
  return {};
}

}  // namespace foretrain

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "sim/config/schedule/placement.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/verify/checks.h"

namespace foretrain {
namespace {

// Positions in the step where each pass of one block and micro-batch begins and ends, all its
// pieces together; -1 if the step does not have it.
struct Passes {
  std::array<int, kPassCount> first, last;
  bool forward_for_next_step = false;  // the forward serves the next step's batch
  bool other_for_next_step = false;    // another pass does, which is an error
  Passes() {
    first.fill(-1);
    last.fill(-1);
  }
  int Begin(Pass pass) const { return first[static_cast<std::size_t>(pass)]; }
  int End(Pass pass) const { return last[static_cast<std::size_t>(pass)]; }
};

// Whether `later` exists and comes after `earlier`.
bool Before(int earlier, int later) { return later >= 0 && earlier < later; }

// Error text for the passes of one block and micro-batch; empty if they are right.
std::string FaultOf(const Passes& passes, const Plan& plan, BlockKind kind) {
  const int forward = passes.End(Pass::kForward);
  const int both = passes.Begin(Pass::kBackward);
  const int input = passes.Begin(Pass::kBackwardInput);
  const int weight = passes.Begin(Pass::kBackwardWeight);
  const int recompute = passes.End(Pass::kRecompute);
  if (forward < 0) return "has no forward";
  if (both < 0 && input < 0 && weight < 0) {
    return HasPass(plan, kind, Pass::kBackward) ? "has no backward" : "";
  }
  if (both >= 0 && (input >= 0 || weight >= 0)) return "has a backward and a half of it";
  if (both < 0) {
    // Token ids have no gradient: the embedding's backward is its weight half.
    if (input < 0 && HasPass(plan, kind, Pass::kBackwardInput))
      return "has a weight half and no input half of its backward";
    if (weight < 0 && HasPass(plan, kind, Pass::kBackwardWeight))
      return "has an input half and no weight half of its backward";
    if (input >= 0 && weight >= 0 && !Before(passes.End(Pass::kBackwardInput), weight))
      return "has its weight half before its input half";
  }
  if (passes.other_for_next_step) return "has a backward of the next step's batch";
  const int reader = both >= 0 ? both : (input >= 0 ? input : weight);
  if (!passes.forward_for_next_step && !Before(forward, reader))
    return "has its backward before its forward";
  if (recompute >= 0 && !Before(recompute, reader)) {
    return "is recomputed after the backward that reads it";
  }
  if (recompute >= 0 && !passes.forward_for_next_step && !Before(forward, recompute))
    return "is recomputed before its forward";
  return "";
}

BlockKind KindOf(const Program& program, int block) {
  if (block == 0) return BlockKind::kEmbedding;
  return block == program.model.AllLayers() + 1 ? BlockKind::kHead : BlockKind::kLayer;
}

// True if no rank has a block pass other than the forward.
bool IsEvaluation(const Program& program) {
  const auto is_other = [](const Instruction& instruction) {
    return instruction.key.kind == InstructionKind::kBlock &&
           instruction.key.pass != Pass::kForward;
  };
  return std::none_of(program.ranks.begin(), program.ranks.end(), [&](const RankProgram& rank) {
    return std::any_of(rank.step.begin(), rank.step.end(), is_other);
  });
}

}  // namespace

// Collects the passes of each block and micro-batch first, because a block may be in pieces that
// lie apart. Counts of micro-batches are checked only if the plan gives them; test programs may
// leave them out.
Result<void> CheckPasses(const Program& program, const RankProgram& rank) {
  std::map<std::pair<int, int>, Passes> all;  // block, micro-batch
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    const InstructionKey& key = rank.step[i].key;
    if (key.kind != InstructionKind::kBlock) continue;
    Passes& passes = all[{key.block, key.micro_batch}];
    const auto pass = static_cast<std::size_t>(key.pass);
    if (rank.step[i].for_next_step) {
      (key.pass == Pass::kForward ? passes.forward_for_next_step : passes.other_for_next_step) =
          true;
    }
    if (passes.first[pass] < 0) passes.first[pass] = static_cast<int>(i);
    passes.last[pass] = static_cast<int>(i);
  }
  const Plan& plan = program.plan;
  const bool evaluates = IsEvaluation(program);
  const bool counts = plan.micro_batch > 0 && plan.dp > 0;
  const int directions = Placement(plan).directions();
  const std::int64_t micro_batches = counts ? plan.MicroBatches() / directions : 0;
  std::map<int, std::int64_t> found;  // micro-batches by block
  for (const auto& [key, passes] : all) {
    const auto& [block, micro_batch] = key;
    ++found[block];
    const std::string fault = evaluates ? "" : FaultOf(passes, plan, KindOf(program, block));
    if (fault.empty()) continue;
    return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank.rank) + ": block " +
                                                 std::to_string(block) + " mb " +
                                                 std::to_string(micro_batch) + " " + fault);
  }
  for (const auto& [block, count] : found) {
    if (!counts || count == micro_batches) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(rank.rank) + ": block " + std::to_string(block) +
                    " runs " + std::to_string(count) + " micro-batches of the plan's " +
                    std::to_string(micro_batches) + (directions == 1 ? "" : " in each direction"));
  }
  return {};
}

}  // namespace foretrain

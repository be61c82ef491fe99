#include "sim/program/lower/model/recompute.h"

#include "sim/program/lower/model/model_block.h"
#include "sim/program/lower/rank/lowerings.h"

namespace foretrain {

// Chen et al. 2016: inserts a recomputation before the first pass that reads the saved tensors.
// Selective recomputation is part of the backward's own block and needs no step here.
void LowerRecompute(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.recompute != RecomputeKind::kFull) return;
  Insertions insertions;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    const bool reads_saved = key.pass == Pass::kBackward || key.pass == Pass::kBackwardInput;
    if (key.kind == InstructionKind::kBlock && reads_saved && key.part == 0 &&
        RecomputeOf(context.plan, context.stage, key.block) == RecomputeKind::kFull) {
      insertions.Before(i, BlockStep(Pass::kRecompute, key.block, key.micro_batch));
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

#include "sim/program/lower/skeleton.h"

namespace foretrain {

void LowerRecompute(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.recompute != RecomputeKind::kFull) return;
  Skeleton out;
  out.reserve(skeleton.size() * 2);
  for (SkeletonStep& step : skeleton) {
    const InstructionKey& key = step.key;
    const bool reads_saved = key.pass == Pass::kBackward || key.pass == Pass::kBackwardInput;
    if (key.kind == InstructionKind::kBlock && reads_saved &&
        context.stage.KindOf(key.block) == BlockKind::kLayer) {
      out.push_back({BlockKey(Pass::kRecompute, key.block, key.micro_batch), {}});
    }
    out.push_back(std::move(step));
  }
  skeleton = std::move(out);
}

}  // namespace foretrain

#include "sim/program/lower/skeleton.h"

namespace foretrain {

void LowerUpdate(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  const bool clips = plan.clip_norm > 0;
  if (plan.dp * plan.pp > 1) {
    skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kLossScalar), {}});
  }
  if (clips) {
    skeleton.push_back({UpdateKey(InstructionKind::kNorm, 0), {}});
    const int ranks = plan.tp * plan.pp * (plan.zero_stage > 0 ? plan.dp : 1);
    if (ranks > 1) skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNormScalar), {}});
  }
  // Forward order: the next step's first blocks get their parameters first.
  for (int bucket = static_cast<int>(context.layout.buckets.size()) - 1; bucket >= 0; --bucket) {
    const ShardRange shard = ShardOf(context.layout.buckets[static_cast<std::size_t>(bucket)]);
    if (shard.end > shard.begin) {
      skeleton.push_back({UpdateKey(InstructionKind::kOptimizerStep, bucket), {}});
    }
    if (plan.zero_stage == 1 && plan.dp > 1) {
      skeleton.push_back({UpdateKey(InstructionKind::kAllGather, bucket), {}});
    }
  }
  skeleton.push_back({UpdateKey(InstructionKind::kHostRead, 0), {}});
}

}  // namespace foretrain

#include <algorithm>
#include <utility>

#include "sim/program/lower/gradients/gradient_norm.h"
#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/scalars.h"

namespace foretrain {
namespace {

// True if ranks count different parts. Tensor-parallel and pipeline ranks always do; data-parallel
// ranks do if they hold shards or experts of their own.
bool IsReduced(const Plan& plan) {
  return plan.tp * plan.pp * ShardingOf(plan).shards > 1 || plan.DealsExperts();
}

// With HSDP each shard has replicas, and only the first one counts it.
bool CountsItsShards(const LowerContext& context) {
  const Plan& plan = context.plan;
  return !ShardingOf(plan).optimizer || DataPlaceOf(plan, context.at).replica == 0;
}

// One sum of squares over all ranges of the rank that it alone counts, so that no element enters
// the norm twice.
StepDescription Norm(const LowerContext& context, const InstructionKey&) {
  std::vector<TensorUse> ranges;
  for (int i = 0; i < static_cast<int>(context.layout.buckets.size()); ++i) {
    for (const ShardRange& range : CountedGradients(context, i)) {
      ranges.push_back(GradientsIn(context, i, range));
    }
  }
  return GradientScalar(context.plan,
                        {"norm", SquaredNormBlock, TensorKind::kNormMade, TensorKind::kNormHere},
                        std::move(ranges));
}

// Without shards and experts, data-parallel ranks have equal gradients after their reduction. So
// the sum spans tp and pp only.
StepDescription NormSum(const LowerContext& context, const InstructionKey&) {
  const bool all = ShardingOf(context.plan).optimizer || context.plan.DealsExperts();
  return ScalarSum("reduce.norm", all ? GroupKind::kWorld : GroupKind::kTpPp, TensorKind::kNormHere,
                   TensorKind::kNorm);
}

constexpr StepRule kNorm{Norm};
constexpr StepRule kNormSum{NormSum};

}  // namespace

std::vector<ShardRange> CountedGradients(const LowerContext& context, int bucket) {
  std::vector<ShardRange> ranges;
  if (!CountsItsShards(context) || context.BucketAt(bucket).frozen) return ranges;
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  for (const ShardRange& range : context.layout.counted[static_cast<std::size_t>(bucket)]) {
    const std::int64_t begin = std::max(shard.begin, range.begin);
    const std::int64_t end = std::min(shard.end, range.end);
    if (begin < end) ranges.push_back({begin, end});
  }
  return ranges;
}

void MakeNormState(RankBuilder& rank) {
  const Plan& plan = rank.Context().plan;
  if (plan.clip_norm <= 0) return;
  MakeScalarPair(rank, TensorKind::kNormHere, TensorKind::kNorm, IsReduced(plan));
  if (GradientsAreOffloaded(plan)) MakeOffloadedScalar(rank, TensorKind::kNormMade);
}

// Stands after all gradient reductions and before the updates, which read the norm. Post-validation
// replaces the sum by one along the pipeline (post_validation.h).
void LowerGradientNorm(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.clip_norm <= 0) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, 0), &kNorm});
  if (!IsReduced(context.plan) || context.plan.post_validation) return;
  skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNormScalar), &kNormSum});
}

}  // namespace foretrain

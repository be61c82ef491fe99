#include <utility>
#include <vector>

#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/scalars.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// Parts of the keys of the instructions.
constexpr int kCount = 1;
constexpr int kSkip = 2;
constexpr int kScale = 3;

bool IsReduced(const Plan& plan) { return plan.World() > 1; }

// This rank's gradients as it updates them.
void EmitCount(RankBuilder& rank, const InstructionKey& key) {
  std::vector<Binding> ranges;
  for (const Bucket& bucket : rank.Rank().buckets) {
    const ShardRange shard = ShardOf(bucket);
    if (bucket.frozen || shard.begin == shard.end) continue;
    ranges.push_back(GradientRangeOf(rank, bucket, shard.begin, shard.end));
  }
  AddGradientScalar(rank, key, "count_not_finite", std::move(ranges), CountNotFiniteBlock,
                    TensorKind::kNotFiniteMade, TensorKind::kNotFiniteHere);
}

void EmitCountSum(RankBuilder& rank, const InstructionKey& key) {
  EmitScalarSum(rank, key, "reduce.not_finite", GroupKind::kWorld, TensorKind::kNotFiniteHere,
                TensorKind::kNotFinite);
}

void EmitSkip(RankBuilder& rank, const InstructionKey& key) {
  const int block = rank.FindBlock("count_skipped", CountSkippedBlock);
  rank.Add(key, block,
           {rank.Whole(rank.Tensors().At({TensorKind::kNotFinite})),
            rank.Whole(rank.Tensors().At({TensorKind::kSkipped}))});
}

void EmitScale(RankBuilder& rank, const InstructionKey& key) {
  const Plan& plan = rank.Context().plan;
  const int block = rank.FindBlock("scale_loss", [&] { return ScaleLossBlock(plan); });
  std::vector<Binding> bindings;
  for (const TensorKind kind :
       {TensorKind::kNotFinite, TensorKind::kLossScale, TensorKind::kLossScaleSince}) {
    bindings.push_back(rank.Whole(rank.Tensors().At({kind})));
  }
  rank.Add(key, block, bindings);
}

constexpr StepRule kScaleRule{EmitScale};
constexpr StepRule kCountRule{EmitCount};
constexpr StepRule kCountSum{EmitCountSum};
constexpr StepRule kSkipRule{EmitSkip};

}  // namespace

void MakeLossScaleState(RankBuilder& rank) {
  const Plan& plan = rank.Context().plan;
  if (plan.loss_scale <= 0) return;
  MakeScalarPair(rank, TensorKind::kNotFiniteHere, TensorKind::kNotFinite, IsReduced(plan));
  if (GradientsAreAway(plan)) MakeScalarAway(rank, TensorKind::kNotFiniteMade);
  rank.Tensors().Put({TensorKind::kSkipped}, rank.NewState(4, Category::kWorkspace));
  if (!plan.HasDynamicScale()) return;
  for (const TensorKind kind : {TensorKind::kLossScale, TensorKind::kLossScaleSince}) {
    rank.Tensors().Put({kind}, rank.NewState(4, Category::kWorkspace));
  }
}

void LowerLossScale(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.loss_scale <= 0) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, kCount), &kCountRule});
  if (context.plan.post_validation) return;  // all is known behind the updates
  if (IsReduced(context.plan)) {
    skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNotFiniteScalar), &kCountSum});
  }
  skeleton.push_back(SkipStep());
}

void LowerScaleUpdate(const LowerContext& context, Skeleton& skeleton) {
  if (!context.plan.HasDynamicScale()) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, kScale), &kScaleRule});
}

SkeletonStep SkipStep() { return {UpdateKey(InstructionKind::kNorm, kSkip), &kSkipRule}; }

}  // namespace foretrain

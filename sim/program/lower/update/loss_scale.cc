#include <utility>
#include <vector>

#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/scalars.h"

namespace foretrain {
namespace {

// Values of key.part that tell the instructions apart.
constexpr int kCount = 1;
constexpr int kSkip = 2;
constexpr int kScale = 3;

bool IsReduced(const Plan& plan) { return plan.World() > 1; }

// Counts in the same gradients that this rank updates.
StepDescription Count(const LowerContext& context, const InstructionKey&) {
  std::vector<TensorUse> ranges;
  for (int i = 0; i < static_cast<int>(context.layout.buckets.size()); ++i) {
    const ShardRange shard = ShardOf(context.BucketAt(i));
    if (context.BucketAt(i).frozen || shard.begin == shard.end) continue;
    ranges.push_back(GradientsIn(context, i, shard));
  }
  return GradientScalar(context.plan,
                        {"count_not_finite", CountNotFiniteBlock, TensorKind::kNotFiniteMade,
                         TensorKind::kNotFiniteHere},
                        std::move(ranges));
}

StepDescription CountSum(const LowerContext&, const InstructionKey&) {
  return ScalarSum("reduce.not_finite", GroupKind::kWorld, TensorKind::kNotFiniteHere,
                   TensorKind::kNotFinite);
}

// AdamW's bias correction counts only steps that were taken, so skipped ones are counted.
StepDescription Skip(const LowerContext&, const InstructionKey&) {
  return {"count_skipped",
          CountSkippedBlock,
          {Uses(TensorKind::kNotFinite), Uses(TensorKind::kSkipped)}};
}

StepDescription Scale(const LowerContext& context, const InstructionKey&) {
  return {"scale_loss",
          [&plan = context.plan] { return ScaleLossBlock(plan); },
          {Uses(TensorKind::kNotFinite), Uses(TensorKind::kLossScale),
           Uses(TensorKind::kLossScaleSince)}};
}

constexpr StepRule kScaleRule{Scale};
constexpr StepRule kCountRule{Count};
constexpr StepRule kCountSum{CountSum};
constexpr StepRule kSkipRule{Skip};

}  // namespace

void MakeLossScaleState(RankBuilder& rank) {
  const Plan& plan = rank.Context().plan;
  if (plan.loss_scale <= 0) return;
  MakeScalarPair(rank, TensorKind::kNotFiniteHere, TensorKind::kNotFinite, IsReduced(plan));
  if (GradientsAreOffloaded(plan)) MakeOffloadedScalar(rank, TensorKind::kNotFiniteMade);
  rank.Tensors().Put({TensorKind::kSkipped}, rank.NewState(4, Category::kWorkspace));
  if (!plan.HasDynamicScale()) return;
  for (const TensorKind kind : {TensorKind::kLossScale, TensorKind::kLossScaleSince}) {
    rank.Tensors().Put({kind}, rank.NewState(4, Category::kWorkspace));
  }
}

// Micikevicius et al. 2018, s. 3.2: one value that is not finite on any rank skips the step on all.
// So the count is reduced over the world before updates read it.
void LowerLossScale(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.loss_scale <= 0) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, kCount), &kCountRule});
  if (context.plan.post_validation) return;  // counts are complete after the updates
  if (IsReduced(context.plan)) {
    skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNotFiniteScalar), &kCountSum});
  }
  skeleton.push_back(SkipStep());
}

// Comes last, because updates and the host read still use this step's scale.
void LowerScaleUpdate(const LowerContext& context, Skeleton& skeleton) {
  if (!context.plan.HasDynamicScale()) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, kScale), &kScaleRule});
}

SkeletonStep SkipStep() { return {UpdateKey(InstructionKind::kNorm, kSkip), &kSkipRule}; }

}  // namespace foretrain

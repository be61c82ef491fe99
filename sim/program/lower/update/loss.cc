#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/scalars.h"

namespace foretrain {
namespace {

// If steps overlap, only ranks with a loss reduce it; others would make them wait.
bool IsReduced(const LowerContext& context) {
  const Plan& plan = context.plan;
  if (plan.StepsOverlap()) return context.stage.HoldsHead() && plan.DataParallel() > 1;
  return plan.World() > plan.tp;
}

StepDescription LossSum(const LowerContext& context, const InstructionKey&) {
  const GroupKind group = context.plan.StepsOverlap() ? GroupKind::kDp : GroupKind::kDpPp;
  return ScalarSum("reduce.loss", group, TensorKind::kLossHere, TensorKind::kLoss);
}

constexpr StepRule kLossSum{LossSum};

}  // namespace

// Zero on stages without a loss, so that every rank can join the all-reduce.
void MakeLossState(RankBuilder& rank) {
  MakeScalarPair(rank, TensorKind::kLossHere, TensorKind::kLoss, IsReduced(rank.Context()));
}

// Tensor-parallel ranks have equal losses, so the group leaves out tp.
void LowerLoss(const LowerContext& context, Skeleton& skeleton) {
  if (!IsReduced(context)) return;
  skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kLossScalar), &kLossSum});
}

}  // namespace foretrain

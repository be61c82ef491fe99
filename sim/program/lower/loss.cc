#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/scalars.h"

namespace foretrain {
namespace {

// Where steps overlap, those alone that have a loss add it up: others would make them wait.
bool IsReduced(const LowerContext& context) {
  const Plan& plan = context.plan;
  if (plan.StepsOverlap()) return context.stage.HoldsHead() && plan.DataParallel() > 1;
  return plan.World() > plan.tp;
}

void EmitLossSum(RankBuilder& rank, const InstructionKey& key) {
  const bool alone = rank.Context().plan.StepsOverlap();
  EmitScalarSum(rank, key, "reduce.loss", alone ? GroupKind::kDp : GroupKind::kDpPp,
                TensorKind::kLossHere, TensorKind::kLoss);
}

constexpr StepRule kLossSum{EmitLossSum};

}  // namespace

// Zero where a stage has no loss, so that every rank can join the sum.
void MakeLossState(RankBuilder& rank) {
  MakeScalarPair(rank, TensorKind::kLossHere, TensorKind::kLoss, IsReduced(rank.Context()));
}

void LowerLoss(const LowerContext& context, Skeleton& skeleton) {
  if (!IsReduced(context)) return;
  skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kLossScalar), &kLossSum});
}

}  // namespace foretrain

#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/scalars.h"

namespace foretrain {
namespace {

bool IsReduced(const Plan& plan) { return plan.World() > plan.tp; }

void EmitLossSum(RankBuilder& rank, const InstructionKey& key) {
  EmitScalarSum(rank, key, "reduce.loss", GroupKind::kDpPp, TensorKind::kLossHere,
                TensorKind::kLoss);
}

constexpr StepRule kLossSum{EmitLossSum};

}  // namespace

// Zero where a stage has no loss, so that every rank can join the sum.
void MakeLossState(RankBuilder& rank) {
  MakeScalarPair(rank, TensorKind::kLossHere, TensorKind::kLoss, IsReduced(rank.Context().plan));
}

void LowerLoss(const LowerContext& context, Skeleton& skeleton) {
  if (!IsReduced(context.plan)) return;
  skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kLossScalar), &kLossSum});
}

}  // namespace foretrain

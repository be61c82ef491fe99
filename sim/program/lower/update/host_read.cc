#include <utility>

#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/scalars.h"

namespace foretrain {
namespace {

// An evaluation has neither gradients nor a loss scale.
StepDescription HostReadLoss() {
  return {"host_read.loss", [] { return HostReadBlock(Plan()); }, {Uses(TensorKind::kLoss)}};
}

StepDescription HostRead(const LowerContext& context, const InstructionKey&) {
  if (context.evaluates) return HostReadLoss();
  std::vector<TensorUse> uses = {Uses(TensorKind::kLoss)};
  if (context.plan.clip_norm > 0) uses.push_back(Uses(TensorKind::kNorm));
  AddLossScale(context.plan, uses);
  return {"host_read", [&plan = context.plan] { return HostReadBlock(plan); }, std::move(uses)};
}

constexpr StepRule kHostRead{HostRead};

}  // namespace

// If steps overlap, only ranks with the loss read it; waiting would stall the others.
void LowerHostRead(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.StepsOverlap() && !context.stage.HoldsHead()) return;
  skeleton.push_back({UpdateKey(InstructionKind::kHostRead, 0), &kHostRead});
}

}  // namespace foretrain

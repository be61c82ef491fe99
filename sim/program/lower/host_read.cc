#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/scalars.h"

namespace foretrain {
namespace {

void EmitHostRead(RankBuilder& rank, const InstructionKey& key) {
  const bool norm = rank.Context().plan.clip_norm > 0;
  const int block = rank.FindBlock("host_read", [&] { return HostReadBlock(rank.Context().plan); });
  std::vector<Binding> bindings = {rank.Whole(rank.Tensors().At({TensorKind::kLoss}))};
  if (norm) bindings.push_back(rank.Whole(rank.Tensors().At({TensorKind::kNorm})));
  for (const Binding& scale : LossScaleOf(rank)) bindings.push_back(scale);
  rank.Add(key, block, bindings);
}

constexpr StepRule kHostRead{EmitHostRead};

}  // namespace

// Where steps overlap, on the ranks that have the loss: the others' hosts go on.
void LowerHostRead(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.StepsOverlap() && !context.stage.HoldsHead()) return;
  skeleton.push_back({UpdateKey(InstructionKind::kHostRead, 0), &kHostRead});
}

}  // namespace foretrain

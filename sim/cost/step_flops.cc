#include "sim/cost/step_flops.h"

#include "sim/program/blocks/blocks.h"

namespace foretrain {
namespace {

double FlopsOf(const Block& block) {
  double sum = 0;
  for (const Op& op : block.ops) {
    if (op.op_class == OpClass::kGemm || op.op_class == OpClass::kAttention) sum += WorkOf(op).flop;
  }
  return sum;
}

}  // namespace

StepFlops FlopsOfStep(const ModelSpec& model, const Plan& plan) {
  const BlockContext context{model, plan, false};
  const auto flops = [&](BlockKind kind, Pass pass) {
    return FlopsOf(BuildBlock(context, {kind, pass}));
  };
  const auto layers = static_cast<double>(model.layers);
  const double layer =
      flops(BlockKind::kLayer, Pass::kForward) + flops(BlockKind::kLayer, Pass::kBackward);
  const double head =
      flops(BlockKind::kHead, Pass::kForward) + flops(BlockKind::kHead, Pass::kBackward);
  const double again =
      plan.recompute == RecomputeKind::kFull ? flops(BlockKind::kLayer, Pass::kRecompute) : 0.0;
  // Micro-batches of all replicas, each shared out among cp ranks; every tensor-parallel rank has
  // its part of the layers and the whole head.
  const double passes = static_cast<double>(plan.MicroBatches()) * plan.dp * plan.cp;
  const double tp = plan.tp;
  return {passes * (layers * layer * tp + head), passes * tp * (layers * (layer + again) + head)};
}

}  // namespace foretrain

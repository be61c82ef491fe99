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
  const auto layers = static_cast<double>(model.layers);
  const double layer =
      FlopsOf(LayerForward(context, true)) + FlopsOf(LayerBackward(context, Pass::kBackward, true));
  const double head =
      FlopsOf(HeadForward(context, true)) + FlopsOf(HeadBackward(context, Pass::kBackward, true));
  const double again =
      plan.recompute == RecomputeKind::kFull ? FlopsOf(LayerRecompute(context)) : 0.0;
  // Micro-batches of all replicas; every tensor-parallel rank has its part of the layers and the
  // whole head.
  const double passes = static_cast<double>(plan.MicroBatches()) * plan.dp;
  const double tp = plan.tp;
  return {passes * (layers * layer * tp + head), passes * tp * (layers * (layer + again) + head)};
}

}  // namespace foretrain

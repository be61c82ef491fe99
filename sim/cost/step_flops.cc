#include "sim/cost/step_flops.h"

#include <map>
#include <utility>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/recompute.h"

namespace foretrain {
namespace {

double FlopsOf(const Block& block) {
  double sum = 0;
  for (const Op& op : block.ops) {
    if (op.op_class == OpClass::kGemm || op.op_class == OpClass::kAttention) sum += WorkOf(op).flop;
  }
  return sum;
}

double FlopsOf(const BlockContext& context, BlockKind kind, RecomputeKind recompute) {
  double sum = 0;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    sum += FlopsOf(BuildBlock(context, {.kind = kind, .pass = pass, .recompute = recompute}));
  }
  if (recompute == RecomputeKind::kFull) {
    sum += FlopsOf(BuildBlock(context, {.kind = kind, .pass = Pass::kRecompute}));
  }
  return sum;
}

// The plan's batches on one rank that does everything once.
Plan Undivided(const Plan& plan) {
  Plan whole = plan;
  whole.tp = whole.cp = 1;
  whole.ep = whole.moe_pieces = 1;
  whole.expert_tp = 0;
  whole.expert_headroom = 0;
  whole.capacity_factor = 0;  // no row of an expert is padding
  whole.sequence_parallel = whole.vocab_parallel = false;
  return whole;
}

}  // namespace

StepFlops FlopsOfStep(const ModelSpec& model, const Plan& plan) {
  const Plan whole = Undivided(plan);
  const BlockContext once{model, whole, false}, rank{model, plan, false};
  StepFlops flops;
  flops.model = FlopsOf(once, BlockKind::kHead, RecomputeKind::kNone);
  // Of a layer with and without experts, that keeps its tensors or makes them again.
  std::map<std::pair<BlockKind, bool>, double> layer;
  for (const auto& [kind, count] :
       {std::pair{BlockKind::kLayer, model.DenseLayers()},
        {BlockKind::kExpertLayer, model.layers - model.DenseLayers()}}) {
    if (count == 0) continue;
    flops.model += static_cast<double>(count) * FlopsOf(once, kind, RecomputeKind::kNone);
    layer[{kind, false}] = FlopsOf(rank, kind, RecomputeKind::kNone);
    layer[{kind, true}] = FlopsOf(rank, kind, plan.recompute);
  }
  flops.hardware = FlopsOf(rank, BlockKind::kHead, RecomputeKind::kNone);
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    for (const int block : stage.blocks) {
      const BlockKind kind = stage.KindOf(block);
      if (!IsLayer(kind)) continue;
      flops.hardware += layer.at({kind, RecomputeOf(plan, stage, block) != RecomputeKind::kNone});
    }
  }
  // Micro-batches of all replicas; every context- or tensor-parallel rank does its part, or
  // repeats.
  const double passes = static_cast<double>(plan.MicroBatches()) * plan.dp;
  flops.model *= passes;
  flops.hardware *= passes * plan.cp * plan.tp;
  return flops;
}

}  // namespace foretrain

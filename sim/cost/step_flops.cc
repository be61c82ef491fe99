#include "sim/cost/step_flops.h"

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
  whole.sequence_parallel = whole.vocab_parallel = false;
  return whole;
}

}  // namespace

StepFlops FlopsOfStep(const ModelSpec& model, const Plan& plan) {
  const Plan whole = Undivided(plan);
  const BlockContext once{model, whole, false}, rank{model, plan, false};
  const double layer = FlopsOf(once, BlockKind::kLayer, RecomputeKind::kNone);
  StepFlops flops;
  flops.model = static_cast<double>(model.layers) * layer +
                FlopsOf(once, BlockKind::kHead, RecomputeKind::kNone);
  const double kept = FlopsOf(rank, BlockKind::kLayer, RecomputeKind::kNone);
  const double again = FlopsOf(rank, BlockKind::kLayer, plan.recompute);
  flops.hardware = FlopsOf(rank, BlockKind::kHead, RecomputeKind::kNone);
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    for (const int block : stage.blocks) {
      if (stage.KindOf(block) != BlockKind::kLayer) continue;
      flops.hardware += RecomputeOf(plan, stage, block) == RecomputeKind::kNone ? kept : again;
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

#include "sim/cost/step_flops.h"

#include <map>
#include <tuple>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

// FLOP of products and attention only; elementwise work is not counted, as is usual for MFU.
double FlopsOf(const Block& block) {
  double sum = 0;
  for (const Op& op : block.ops) {
    if (op.op_class == OpClass::kGemm || op.op_class == OpClass::kAttention) sum += WorkOf(op).flop;
  }
  return sum;
}

// FLOP of all passes of one block over one micro-batch, including full recomputation.
double FlopsOf(const BlockContext& context, BlockRequest request) {
  double sum = 0;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    request.pass = pass;
    sum += FlopsOf(BuildBlock(context, request));
  }
  if (request.recompute == RecomputeKind::kFull) {
    request.pass = Pass::kRecompute;
    sum += FlopsOf(BuildBlock(context, request));
  }
  return sum;
}

// FLOP of layers, cached by kind, recomputation and whether they attend beyond the model's window.
class LayerFlops {
 public:
  explicit LayerFlops(const BlockContext& context) : context_(context) {}
  double Of(BlockKind kind, int block, RecomputeKind recompute) {
    const bool global = IsGlobal(context_.model, context_.plan, block);
    const auto [found, is_new] = known_.try_emplace({kind, recompute, global});
    if (is_new) {
      found->second = FlopsOf(context_, {.kind = kind, .recompute = recompute, .global = global});
    }
    return found->second;
  }

 private:
  const BlockContext& context_;
  std::map<std::tuple<BlockKind, RecomputeKind, bool>, double> known_;
};

// The plan's batches on one rank that computes everything once.
Plan Undivided(const Plan& plan) {
  Plan whole = plan;
  whole.tp = whole.cp = 1;
  whole.ep = whole.moe_pieces = 1;
  whole.expert_tp = 0;
  whole.expert_headroom = 0;
  whole.capacity_factor = 0;  // expert rows contain no padding
  whole.sequence_parallel = whole.vocab_parallel = false;
  return whole;
}

}  // namespace

// Model FLOP are independent of the split; hardware FLOP add recomputation and repeated work.
StepFlops FlopsOfStep(const ModelSpec& model, const Plan& plan) {
  const Plan whole = Undivided(plan);
  const BlockContext once{model, whole, false}, rank{model, plan, false};
  LayerFlops layers_once(once), layers_here(rank);
  StepFlops flops;
  flops.model = FlopsOf(once, {.kind = BlockKind::kHead});
  for (int block = 1; block <= model.AllLayers(); ++block) {
    flops.model += layers_once.Of(KindOfLayer(model, block - 1), block, RecomputeKind::kNone);
  }
  flops.hardware = FlopsOf(rank, {.kind = BlockKind::kHead});
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    for (const int block : stage.blocks) {
      const BlockKind kind = stage.KindOf(block);
      if (!IsLayer(kind)) continue;
      // Under DualPipe two ranks hold each layer, and each computes half of the micro-batches.
      flops.hardware +=
          layers_here.Of(kind, block, RecomputeOf(plan, stage, block)) / plan.StageCopies();
    }
  }
  // Micro-batches of all replicas. Every context- or tensor-parallel rank does its part, or repeats
  // the work.
  const double passes = static_cast<double>(plan.MicroBatches()) * plan.dp;
  flops.model *= passes;
  flops.hardware *= passes * plan.cp * plan.tp;
  return flops;
}

}  // namespace foretrain

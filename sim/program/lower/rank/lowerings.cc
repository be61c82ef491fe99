#include "sim/program/lower/rank/lowerings.h"

#include <array>
#include <vector>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/model/model_block.h"

namespace foretrain {
namespace {

// Order matters. The pipeline comes first, because all others insert around its passes. Offloads
// precede gathers, which read their copies. Reductions precede norm and loss scale, and these
// precede the updates that read them.
constexpr bool kOfUpdate = true, kOfEvaluation = true;
constexpr std::array kLowerings = {
    Lowering{MakeBucketState, nullptr},
    Lowering{MakeOverlapState, LowerPipeline, !kOfUpdate, kOfEvaluation},
    Lowering{nullptr, LowerRecompute},
    Lowering{nullptr, LowerActivationOffload},
    Lowering{nullptr, LowerParameterOffload, !kOfUpdate, kOfEvaluation},
    Lowering{nullptr, LowerParameterGathering, !kOfUpdate, kOfEvaluation},
    Lowering{nullptr, LowerMicroBatchReduction},
    Lowering{nullptr, LowerGradientReduction},
    Lowering{nullptr, LowerTiedEmbeddings},
    Lowering{nullptr, LowerOwnRowGradients},
    Lowering{nullptr, LowerHeadGradients},
    Lowering{MakeLossState, LowerLoss, kOfUpdate, kOfEvaluation},
    Lowering{MakeNormState, LowerGradientNorm, kOfUpdate},
    Lowering{MakeLossScaleState, LowerLossScale, kOfUpdate},
    Lowering{MakePostValidationState, LowerPostValidation, kOfUpdate},
    Lowering{MakeOptimizerOffloadState, LowerOptimizerOffload, kOfUpdate},
    Lowering{nullptr, LowerOptimizer, kOfUpdate},
    Lowering{MakeRouterBiasState, LowerRouterBias},
    Lowering{nullptr, LowerOlderParameters},
    Lowering{nullptr, LowerHostRead, kOfUpdate, kOfEvaluation},
    Lowering{nullptr, LowerScaleUpdate, kOfUpdate},
};

}  // namespace

std::span<const Lowering> Lowerings() { return kLowerings; }

// Runs every lowering but the pipeline on plain passes, so prices see the same rules as a real
// step.
Skeleton OutlineStep(const LowerContext& context, bool update) {
  Skeleton skeleton;
  const std::vector<int>& blocks = context.stage.blocks;
  for (int i = 0; i < static_cast<int>(context.plan.MicroBatches()); ++i) {
    for (const int block : blocks) skeleton.push_back(BlockStep(Pass::kForward, block, i));
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      if (!HasPass(context.plan, context.stage.KindOf(*block), Pass::kBackward)) continue;
      skeleton.push_back(BlockStep(Pass::kBackward, *block, i));
    }
  }
  for (const Lowering& lowering : kLowerings) {
    const bool inserts = lowering.add_steps != nullptr && lowering.add_steps != LowerPipeline;
    if (inserts && (update || !lowering.of_update)) lowering.add_steps(context, skeleton);
  }
  return skeleton;
}

Skeleton LowerStep(const LowerContext& context) {
  Skeleton skeleton;
  for (const Lowering& lowering : kLowerings) {
    const bool applies = !context.evaluates || lowering.of_evaluation;
    if (lowering.add_steps != nullptr && applies) lowering.add_steps(context, skeleton);
  }
  return skeleton;
}

}  // namespace foretrain

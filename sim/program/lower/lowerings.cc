#include "sim/program/lower/lowerings.h"

#include <array>

namespace foretrain {
namespace {

constexpr std::array kLowerings = {
    Lowering{MakeBucketState, nullptr},
    Lowering{MakeOverlapState, LowerPipeline},
    Lowering{nullptr, LowerRecompute},
    Lowering{nullptr, LowerActivationOffload},
    Lowering{nullptr, LowerParameterOffload},
    Lowering{nullptr, LowerParameterGathering},
    Lowering{nullptr, LowerMicroBatchReduction},
    Lowering{nullptr, LowerGradientReduction},
    Lowering{nullptr, LowerTiedEmbeddings},
    Lowering{nullptr, LowerOwnRowGradients},
    Lowering{nullptr, LowerHeadGradients},
    Lowering{MakeLossState, LowerLoss},
    Lowering{MakeNormState, LowerGradientNorm},
    Lowering{MakeLossScaleState, LowerLossScale},
    Lowering{MakePostValidationState, LowerPostValidation},
    Lowering{MakeOptimizerOffloadState, LowerOptimizerOffload},
    Lowering{nullptr, LowerOptimizer},
    Lowering{MakeRouterBiasState, LowerRouterBias},
    Lowering{nullptr, LowerOlderParameters},
    Lowering{nullptr, LowerHostRead},
    Lowering{nullptr, LowerScaleUpdate},
};

}  // namespace

std::span<const Lowering> Lowerings() { return kLowerings; }

Skeleton LowerStep(const LowerContext& context) {
  Skeleton skeleton;
  for (const Lowering& lowering : kLowerings) {
    if (lowering.add_steps != nullptr) lowering.add_steps(context, skeleton);
  }
  return skeleton;
}

}  // namespace foretrain

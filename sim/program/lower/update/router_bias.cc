// Balances experts without an auxiliary loss. The choices of each router are counted over a step
// and over all ranks that route tokens, and its biases move against them. DeepSeek-AI 2024b,
// s. 2.1.2.
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/rank_builder.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// Values of key.part that tell a router's instructions apart.
constexpr int kSum = 0;
constexpr int kSumOverTp = 1;
constexpr int kMove = 2;

// A router with a bias that moves: its block, and its depth among the head's layers of multi-token
// prediction (0 for other blocks).
struct Router {
  int block = 0;
  int depth = 0;
  ParameterRange bias;
};

std::vector<Router> RoutersOf(const LowerContext& context) {
  std::vector<Router> routers;
  if (context.model.router_bias_rate == 0) return routers;
  for (const int block : context.stage.blocks) {
    if (context.stage.KindOf(block) == BlockKind::kExpertLayer) {
      routers.push_back({block, 0, context.RangeOf(block, kChoiceBias)});
    }
    if (context.stage.KindOf(block) != BlockKind::kHead) continue;
    for (int depth = 0; depth < context.model.predict_ahead; ++depth) {
      const int index = MtpIndex(depth, int{kMtpLayer} + kChoiceBias);
      routers.push_back({block, depth, context.RangeOf(block, index)});
    }
  }
  return routers;
}

// The router of an instruction; key.micro_batch holds its depth.
Router RouterOf(const LowerContext& context, const InstructionKey& key) {
  const int index = key.block == context.stage.layers + 1
                        ? MtpIndex(key.micro_batch, int{kMtpLayer} + kChoiceBias)
                        : int{kChoiceBias};
  return {key.block, key.micro_batch, context.RangeOf(key.block, index)};
}

TensorUse LoadsOf(const InstructionKey& key) {
  return Uses({TensorKind::kLoads, key.block, 0, key.micro_batch});
}

StepDescription Sum(const LowerContext& context, const InstructionKey& key) {
  const bool over_tp = key.part == kSumOverTp;
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.loads", over_tp ? Queue::kTp : Queue::kReduce,
                      over_tp ? GroupKind::kTp : GroupKind::kDp, context.model.experts};
  if (over_tp) spec.op_class = OpClass::kTpComm;
  return Collective(spec, {LoadsOf(key)});
}

StepDescription MoveBias(const LowerContext& context, const InstructionKey& key) {
  const ParameterRange bias = RouterOf(context, key).bias;
  return {
      "balance.bias",
      [&model = context.model] { return BalanceBiasBlock(model.experts, model.router_bias_rate); },
      {LoadsOf(key),
       ParametersIn(context, bias.bucket, {bias.offset, bias.offset + bias.elements})}};
}

constexpr StepRule kSumRule{Sum};
constexpr StepRule kMoveRule{MoveBias};

}  // namespace

void MakeRouterBiasState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  for (const Router& router : RoutersOf(context)) {
    rank.Tensors().Put({TensorKind::kLoads, router.block, 0, router.depth},
                       rank.NewState(context.model.experts * kFloatBytes, Category::kWorkspace));
  }
}

// Counts are summed before the bias moves, so that all ranks move it alike without a broadcast.
void LowerRouterBias(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  for (const Router& router : RoutersOf(context)) {
    const auto add = [&](int part, const StepRule& rule) {
      skeleton.push_back(
          {{InstructionKind::kBalance, Pass::kUpdate, router.block, router.depth, part}, &rule});
    };
    if (plan.DataParallel() > 1) add(kSum, kSumRule);
    // Without it, all tensor-parallel ranks route the same tokens and have equal counts.
    if (plan.ExpertsSpanTp()) add(kSumOverTp, kSumRule);
    add(kMove, kMoveRule);
  }
}

}  // namespace foretrain

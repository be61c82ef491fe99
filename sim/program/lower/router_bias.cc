// Balances experts without a loss: each router's choices are counted over a step and over all ranks
// that deal its tokens, and the biases by which it chooses follow them. DeepSeek-AI 2024b,
// s. 2.1.2.
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/rank_builder.h"

namespace foretrain {
namespace {

// Parts of the keys of a router's instructions.
constexpr int kSum = 0;
constexpr int kSumOverTp = 1;
constexpr int kMove = 2;

// A layer whose experts are chosen by biases that move: its block, and its number among those that
// predict ahead, which are the head's.
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
      const int index = AheadIndex(depth, int{kAheadLayer} + kChoiceBias);
      routers.push_back({block, depth, context.RangeOf(block, index)});
    }
  }
  return routers;
}

// The step of router `key.micro_batch` of a block.
Router RouterOf(const LowerContext& context, const InstructionKey& key) {
  const int index = key.block == context.stage.layers + 1
                        ? AheadIndex(key.micro_batch, int{kAheadLayer} + kChoiceBias)
                        : int{kChoiceBias};
  return {key.block, key.micro_batch, context.RangeOf(key.block, index)};
}

Binding LoadsOf(RankBuilder& rank, const InstructionKey& key) {
  return rank.Whole(rank.Tensors().At({TensorKind::kLoads, key.block, 0, key.micro_batch}));
}

void EmitSum(RankBuilder& rank, const InstructionKey& key) {
  const bool over_tp = key.part == kSumOverTp;
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.loads", over_tp ? Queue::kTp : Queue::kReduce,
                      over_tp ? GroupKind::kTp : GroupKind::kDp, rank.Context().model.experts};
  if (over_tp) spec.op_class = OpClass::kTpComm;
  rank.Add(key, rank.FindCollective(spec), {LoadsOf(rank, key)});
}

void EmitMove(RankBuilder& rank, const InstructionKey& key) {
  const ModelSpec& model = rank.Context().model;
  const ParameterRange range = RouterOf(rank.Context(), key).bias;
  const Bucket& bucket = rank.Rank().buckets[static_cast<std::size_t>(range.bucket)];
  const int block = rank.FindBlock(
      "balance.bias", [&] { return BalanceBiasBlock(model.experts, model.router_bias_rate); });
  rank.Add(key, block,
           {LoadsOf(rank, key),
            ParameterRangeOf(rank, bucket, range.offset, range.offset + range.elements)});
}

constexpr StepRule kSumRule{EmitSum};
constexpr StepRule kMoveRule{EmitMove};

}  // namespace

void MakeRouterBiasState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  for (const Router& router : RoutersOf(context)) {
    rank.Tensors().Put({TensorKind::kLoads, router.block, 0, router.depth},
                       rank.NewState(context.model.experts * kFloatBytes, Category::kWorkspace));
  }
}

void LowerRouterBias(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  for (const Router& router : RoutersOf(context)) {
    const auto add = [&](int part, const StepRule& rule) {
      skeleton.push_back(
          {{InstructionKind::kBalance, Pass::kUpdate, router.block, router.depth, part}, &rule});
    };
    if (plan.DataParallel() > 1) add(kSum, kSumRule);
    // Else all tensor-parallel ranks deal the same tokens.
    if (plan.ExpertsSpanTp()) add(kSumOverTp, kSumRule);
    add(kMove, kMoveRule);
  }
}

}  // namespace foretrain

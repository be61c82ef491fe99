#include <algorithm>

#include "base/checked.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

void EmitOptimizerStep(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const Plan& plan = rank.Context().plan;
  const ShardRange shard = ShardOf(bucket);
  const std::int64_t elements = shard.end - shard.begin;
  const std::int64_t decayed = std::clamp<std::int64_t>(bucket.decayed - shard.begin, 0, elements);
  const std::string name = "optimizer." + std::to_string(elements) + "." + std::to_string(decayed);
  const int block = rank.FindBlock(name, [&] { return OptimizerBlock(plan, elements, decayed); });
  std::vector<Binding> bindings = {ParameterRangeOf(rank, bucket, shard.begin, shard.end),
                                   GradientRangeOf(rank, bucket, shard.begin, shard.end)};
  // In the order of the block's slots, without the padding of the shard.
  const std::int64_t scales = 4 * CeilDiv(elements, kScaleBlock);
  if (bucket.moment1 >= 0) {
    const bool codes = bucket.absmax1 >= 0;
    const std::int64_t bytes = codes ? elements : BytesIn(MomentFormatOf(plan), elements);
    bindings.push_back({bucket.moment1, 0, bytes});
    bindings.push_back({bucket.moment2, 0, bytes});
  }
  const auto scalar = [&](TensorKind kind) {
    bindings.push_back(rank.Whole(rank.Tensors().At({kind})));
  };
  if (plan.clip_norm > 0) scalar(TensorKind::kNorm);
  if (plan.loss_scale > 0) scalar(TensorKind::kNotFinite);
  if (plan.loss_scale > 0 && bucket.moment1 >= 0) scalar(TensorKind::kSkipped);
  if (bucket.absmax1 >= 0) {
    bindings.push_back({bucket.absmax1, 0, scales});
    bindings.push_back({bucket.absmax2, 0, scales});
  }
  rank.Add(key, block, bindings);
}

void EmitUpdatedGather(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block = rank.FindCollective({OpKind::kAllGather, "gather.updated", Queue::kGather,
                                         ShardGroup(bucket), bucket.elements, bucket.shards});
  rank.Add(key, block, {OwnShard(rank, bucket, bucket.parameters), rank.Whole(bucket.parameters)});
}

constexpr StepRule kOptimizerStep{EmitOptimizerStep};
constexpr StepRule kUpdatedGather{EmitUpdatedGather};

}  // namespace

void LowerOptimizer(const LowerContext& context, Skeleton& skeleton) {
  const Sharding sharding = ShardingOf(context.plan);
  // Forward order: the next step's first blocks get their parameters first.
  for (int bucket = static_cast<int>(context.layout.buckets.size()) - 1; bucket >= 0; --bucket) {
    if (context.BucketAt(bucket).frozen) continue;
    const ShardRange shard = ShardOf(context.BucketAt(bucket));
    if (shard.end > shard.begin && !OffloadOf(context, bucket).away) {
      skeleton.push_back({UpdateKey(InstructionKind::kOptimizerStep, bucket), &kOptimizerStep});
    }
    if (sharding.optimizer && !sharding.parameters && context.BucketAt(bucket).shards > 1) {
      skeleton.push_back({UpdateKey(InstructionKind::kAllGather, bucket), &kUpdatedGather});
    }
  }
}

}  // namespace foretrain

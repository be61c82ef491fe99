#include <algorithm>

#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/overlap.h"
#include "sim/program/lower/own_row_gradients.h"
#include "sim/program/lower/rank_builder.h"

namespace foretrain {
namespace {

void EmitSum(RankBuilder& rank, const InstructionKey& key) {
  const ShardRange range = OwnRowGradients(rank.Context(), key.part);
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.own_rows", Queue::kTp, GroupKind::kTp,
                      range.end - range.begin};
  spec.op_class = OpClass::kTpComm;
  AddGradientSum(rank, key, spec,
                 GradientRangeOf(rank, rank.BucketOf(key), range.begin, range.end));
}

StepMemory SumMemory(const LowerContext& context, const InstructionKey& key) {
  const ShardRange range = OwnRowGradients(context, key.part);
  return GradientSumMemory(context.plan, range.end - range.begin);
}

constexpr StepRule kSum{EmitSum, SumMemory};

}  // namespace

ShardRange OwnRowGradients(const LowerContext& context, int bucket) {
  const ShardRange& all = context.layout.own_row_gradients[static_cast<std::size_t>(bucket)];
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const std::int64_t begin = std::max(all.begin, shard.begin);
  return {begin, std::max(begin, std::min(all.end, shard.end))};
}

void LowerOwnRowGradients(const LowerContext& context, Skeleton& skeleton) {
  const bool each = context.plan.UpdatesEachMicroBatch();
  Insertions insertions;
  for (int bucket = 0; bucket < static_cast<int>(context.layout.buckets.size()); ++bucket) {
    const ShardRange range = OwnRowGradients(context, bucket);
    if (range.end == range.begin) continue;
    // Named by the first layer, so that it is neither the bucket's sum over dp nor a tied table's.
    SkeletonStep step{{InstructionKind::kAllReduce, Pass::kUpdate, 1, 0, bucket}, &kSum};
    if (!each) {
      skeleton.push_back(step);
      continue;
    }
    for (const std::size_t end : EndsOfBackwards(context, skeleton)) {
      insertions.Behind(end, step);
      ++step.key.micro_batch;
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

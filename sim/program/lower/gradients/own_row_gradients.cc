#include <algorithm>

#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/gradients/own_row_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/update/overlap.h"

namespace foretrain {
namespace {

// Runs on the tp queue and counts as tensor-parallel communication: the ranks of a tp group hold
// equal parameters.
StepDescription Sum(const LowerContext& context, const InstructionKey& key) {
  const ShardRange range = OwnRowGradients(context, key.part);
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.own_rows", Queue::kTp, GroupKind::kTp,
                      range.end - range.begin};
  spec.op_class = OpClass::kTpComm;
  return GradientSum(context.plan, spec, GradientsIn(context, key.part, range));
}

constexpr StepRule kSum{Sum};

}  // namespace

// Such tensors lie next to each other in a bucket (stage.cc), so one range per bucket is enough.
ShardRange OwnRowGradients(const LowerContext& context, int bucket) {
  const ShardRange& all = context.layout.own_row_gradients[static_cast<std::size_t>(bucket)];
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const std::int64_t begin = std::max(all.begin, shard.begin);
  return {begin, std::max(begin, std::min(all.end, shard.end))};
}

// Stands after the reduction over dp, so that each rank reduces only the part of its own shard.
void LowerOwnRowGradients(const LowerContext& context, Skeleton& skeleton) {
  const bool each = context.plan.UpdatesEachMicroBatch();
  Insertions insertions;
  for (int bucket = 0; bucket < static_cast<int>(context.layout.buckets.size()); ++bucket) {
    const ShardRange range = OwnRowGradients(context, bucket);
    if (range.end == range.begin) continue;
    // The key names the first layer, because block 0 means the reduction over dp and the head's
    // block that of a tied table.
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

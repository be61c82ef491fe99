#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradient_reduction.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// Of this rank's shard where sums over dp were made before.
bool SumIsScattered(const LowerContext& context) {
  const Sharding sharding = ShardingOf(context.plan);
  return sharding.optimizer && sharding.each_micro_batch;
}
std::int64_t SummedElements(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  return SumIsScattered(context) ? bucket.elements / bucket.shards : bucket.elements;
}

// Over both ends of the pipeline.
void EmitTiedSum(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  AddGradientSum(rank, key,
                 {OpKind::kAllReduce, "reduce.tied", Queue::kReduce, GroupKind::kEnds,
                  SummedElements(rank.Context(), key)},
                 SumIsScattered(rank.Context()) ? ShardOfGradients(rank, bucket)
                                                : rank.Whole(bucket.gradients));
}
StepMemory TiedMemory(const LowerContext& context, const InstructionKey& key) {
  return GradientSumMemory(context.plan, SummedElements(context, key));
}

constexpr StepRule kTiedSum{EmitTiedSum, TiedMemory};

}  // namespace

void LowerTiedEmbeddings(const LowerContext& context, Skeleton& skeleton) {
  const int bucket = context.layout.twin_bucket;
  if (bucket < 0) return;
  // The far end comes late: behind all other sums of the queue it delays none of them. Named by the
  // head, so that it is not the bucket's sum over dp.
  skeleton.push_back(
      {{InstructionKind::kAllReduce, Pass::kUpdate, context.stage.layers + 1, 0, bucket},
       &kTiedSum});
  if (context.plan.DataParallel() > 1 && !ShardingOf(context.plan).each_micro_batch) {
    for (const SkeletonStep& step : ReductionSteps(context, bucket)) skeleton.push_back(step);
  }
}

}  // namespace foretrain

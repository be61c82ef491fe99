#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradient_reduction.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// Over both ends of the pipeline: of this rank's shard where sums over dp were made before.
void EmitTiedSum(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const Sharding sharding = ShardingOf(rank.Context().plan);
  const bool scattered = sharding.optimizer && sharding.each_micro_batch;
  const std::int64_t elements = scattered ? bucket.elements / bucket.shards : bucket.elements;
  const int block = rank.FindCollective(
      {OpKind::kAllReduce, "reduce.tied", Queue::kReduce, GroupKind::kEnds, elements});
  rank.Add(key, block, {scattered ? ShardOfGradients(rank, bucket) : rank.Whole(bucket.gradients)});
}

constexpr StepRule kTiedSum{EmitTiedSum};

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

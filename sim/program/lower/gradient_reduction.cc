#include "sim/program/lower/gradient_reduction.h"

#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

void EmitSum(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block = rank.FindCollective(
      {OpKind::kAllReduce, "reduce.gradients", Queue::kReduce, SumGroup(bucket), bucket.elements});
  rank.Add(key, block, {rank.Whole(bucket.gradients)});
}

void EmitScatter(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block = rank.FindCollective({OpKind::kReduceScatter, "reduce.scatter", Queue::kReduce,
                                         ShardGroup(bucket), bucket.elements, bucket.shards});
  rank.Add(key, block, {rank.Whole(bucket.gradients), OwnShard(rank, bucket, bucket.gradients)});
}

constexpr StepRule kSum{EmitSum};
constexpr StepRule kScatter{EmitScatter};

}  // namespace

SkeletonStep ReductionStep(const LowerContext& context, int bucket) {
  if (ShardingOf(context.plan).optimizer) {
    return {UpdateKey(InstructionKind::kReduceScatter, bucket), &kScatter};
  }
  return {UpdateKey(InstructionKind::kAllReduce, bucket), &kSum};
}

void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.DataParallel() == 1 || ShardingOf(context.plan).gradients) return;
  Insertions insertions;
  for (const auto& [position, bucket, mb, last] : BucketCompletions(context, skeleton)) {
    // A tied table waits for its twin: LowerTiedEmbeddings puts both sums at the end.
    if (!last || bucket == context.layout.twin_bucket) continue;
    if (context.BucketAt(bucket).experts && ExpertHolders(context.plan) == 1) continue;
    insertions.Behind(position, ReductionStep(context, bucket));
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

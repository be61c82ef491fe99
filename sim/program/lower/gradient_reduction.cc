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
  rank.Add(key, block, {rank.Whole(bucket.gradients), ShardOfGradients(rank, bucket)});
}

void EmitReplicaSum(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block = rank.FindCollective({OpKind::kAllReduce, "reduce.replicas", Queue::kReduce,
                                         GroupKind::kReplica, bucket.elements / bucket.shards});
  rank.Add(key, block, {ShardOfGradients(rank, bucket)});
}

constexpr StepRule kSum{EmitSum};
constexpr StepRule kScatter{EmitScatter};
constexpr StepRule kReplicaSum{EmitReplicaSum};

}  // namespace

SkeletonStep ReplicaStep(int bucket) {
  return {UpdateKey(InstructionKind::kAllReduce, bucket), &kReplicaSum};
}

Skeleton ReductionSteps(const LowerContext& context, int bucket) {
  if (!ShardingOf(context.plan).optimizer) {
    return {{UpdateKey(InstructionKind::kAllReduce, bucket), &kSum}};
  }
  Skeleton steps = {{UpdateKey(InstructionKind::kReduceScatter, bucket), &kScatter}};
  if (SumsReplicas(context.plan)) steps.push_back(ReplicaStep(bucket));
  return steps;
}

void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton) {
  if (ShardingOf(context.plan).each_micro_batch) return;
  Insertions insertions;
  for (const BucketCompletion& done : BucketCompletions(context, skeleton)) {
    // A tied table waits for its twin: LowerTiedEmbeddings puts both sums at the end.
    if (!done.last || done.bucket == context.layout.twin_bucket) continue;
    if (IsHeldOnce(context.plan, context.BucketAt(done.bucket))) continue;
    for (const SkeletonStep& step : ReductionSteps(context, done.bucket)) {
      insertions.Behind(done.position, step);
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

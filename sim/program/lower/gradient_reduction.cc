#include "sim/program/lower/gradient_reduction.h"

#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

void EmitSum(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.gradients", Queue::kReduce, SumGroup(bucket),
                      bucket.elements};
  spec.format = bucket.sums;
  rank.Add(key, rank.FindCollective(spec), {rank.Whole(bucket.gradients)});
}

void EmitScatter(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  CollectiveSpec spec{OpKind::kReduceScatter, "reduce.scatter", Queue::kReduce,
                      ShardGroup(bucket),     bucket.elements,  bucket.shards};
  spec.format = bucket.sums;
  rank.Add(key, rank.FindCollective(spec),
           {rank.Whole(bucket.gradients), ShardOfGradients(rank, bucket)});
}

std::int64_t ShardElements(const Bucket& bucket) { return bucket.elements / bucket.shards; }

void EmitReplicaSum(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  AddGradientSum(rank, key,
                 {OpKind::kAllReduce, "reduce.replicas", Queue::kReduce, GroupKind::kReplica,
                  ShardElements(bucket)},
                 ShardOfGradients(rank, bucket));
}
StepMemory ReplicaMemory(const LowerContext& context, const InstructionKey& key) {
  return GradientSumMemory(context.plan, ShardElements(context.BucketAt(key.part)));
}

constexpr StepRule kSum{EmitSum};
constexpr StepRule kScatter{EmitScatter};
constexpr StepRule kReplicaSum{EmitReplicaSum, ReplicaMemory};

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
    const bool each = context.plan.UpdatesEachMicroBatch();
    // A tied table waits for its twin: LowerTiedEmbeddings puts both sums at the end.
    if ((!done.last && !each) || done.bucket == context.layout.twin_bucket) continue;
    if (IsHeldOnce(context.plan, context.BucketAt(done.bucket))) continue;
    for (SkeletonStep step : ReductionSteps(context, done.bucket)) {
      if (each) step.key.micro_batch = done.micro_batch;
      insertions.Behind(done.position, step);
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

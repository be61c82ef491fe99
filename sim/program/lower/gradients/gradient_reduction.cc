#include "sim/program/lower/gradients/gradient_reduction.h"

#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// All-reduce of the whole bucket, in place: every rank updates all of it.
StepDescription Sum(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.gradients", Queue::kReduce, SumGroup(bucket),
                      bucket.elements};
  spec.format = bucket.sums;
  return Collective(spec, {WholeState(&Bucket::gradients, key.part)});
}

// ZeRO: each rank gets the reduced shard that it updates. Rajbhandari et al. 2020, s. 5.1.
StepDescription Scatter(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  CollectiveSpec spec{OpKind::kReduceScatter, "reduce.scatter", Queue::kReduce,
                      ShardGroup(bucket),     bucket.elements,  bucket.shards};
  spec.format = bucket.sums;
  spec.tensors = bucket.tensors;
  return Collective(
      spec, {WholeState(&Bucket::gradients, key.part), ShardOfGradients(context, key.part)});
}

// HSDP: the shard is reduced over its replicas after the scatter, so the slow links carry 1/shards
// of the bytes.
StepDescription ReplicaSum(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  return GradientSum(context.plan,
                     {OpKind::kAllReduce, "reduce.replicas", Queue::kReduce, GroupKind::kReplica,
                      bucket.elements / bucket.shards},
                     ShardOfGradients(context, key.part));
}

constexpr StepRule kSum{Sum};
constexpr StepRule kScatter{Scatter};
constexpr StepRule kReplicaSum{ReplicaSum};

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

// Each bucket is reduced right after the pass that completes it, so all reductions but the last
// overlap the rest of the backward.
void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton) {
  if (ShardingOf(context.plan).each_micro_batch) return;
  Insertions insertions;
  for (const BucketCompletion& done : BucketCompletions(context, skeleton)) {
    const bool each = context.plan.UpdatesEachMicroBatch();
    // A tied table needs the gradient of its other copy first: LowerTiedEmbeddings appends both
    // reductions.
    if ((!done.last && !each) || done.bucket == context.layout.tied_bucket) continue;
    if (IsHeldOnce(context.plan, context.BucketAt(done.bucket))) continue;
    for (SkeletonStep step : ReductionSteps(context, done.bucket)) {
      if (each) step.key.micro_batch = done.micro_batch;
      insertions.Behind(done.position, step);
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

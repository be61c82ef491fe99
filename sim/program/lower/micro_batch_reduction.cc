#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradient_reduction.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// What micro-batches add up to, in fp32; the whole gradients of this one are done with.
template <bool kAdds>
void EmitReduction(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const TensorName name{TensorKind::kWholeGradients, 0, key.micro_batch, key.part};
  const Binding whole = rank.Whole(rank.Tensors().At(name));
  rank.Tensors().Drop(name);
  if (ShardingOf(rank.Context().plan).optimizer) {
    const int block =
        rank.FindCollective({OpKind::kReduceScatter, "reduce.to_shard", Queue::kReduce,
                             ShardGroup(bucket), bucket.elements, bucket.shards,
                             /*in_place=*/false, kAdds});
    rank.Add(key, block, {whole, ShardOfGradients(rank, bucket)});
  } else {
    const int block = rank.FindCollective({OpKind::kAllReduce, "reduce.micro_batch", Queue::kReduce,
                                           SumGroup(bucket), bucket.elements, /*shards=*/1,
                                           /*in_place=*/false, kAdds});
    rank.Add(key, block, {whole, rank.Whole(bucket.gradients)});
  }
}

StepMemory ReductionMemory(const LowerContext& context, const InstructionKey& key) {
  return FreesBytes(Category::kGradients, context.BucketAt(key.part).elements * kFloatBytes);
}

constexpr StepRule kFirst{EmitReduction<false>, ReductionMemory};
constexpr StepRule kFurther{EmitReduction<true>, ReductionMemory};

}  // namespace

void LowerMicroBatchReduction(const LowerContext& context, Skeleton& skeleton) {
  const Sharding sharding = ShardingOf(context.plan);
  if (!sharding.each_micro_batch) return;
  const InstructionKind kind =
      sharding.optimizer ? InstructionKind::kReduceScatter : InstructionKind::kAllReduce;
  Insertions insertions;
  for (const BucketCompletion& done : BucketCompletions(context, skeleton)) {
    if (IsHeldOnce(context.plan, context.BucketAt(done.bucket))) continue;
    const int block = skeleton[done.position].key.block;
    const InstructionKey key{kind, Pass::kBackward, block, done.micro_batch, done.bucket};
    insertions.Behind(done.position, {key, done.first ? &kFirst : &kFurther});
    if (done.last && SumsReplicas(context.plan)) {
      insertions.Behind(done.position, ReplicaStep(done.bucket));
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

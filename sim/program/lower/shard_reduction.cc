#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// The shards add up micro-batches; the whole gradients of this one are done with.
void EmitReduction(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block =
      rank.FindCollective({OpKind::kReduceScatter, "reduce.to_shard", Queue::kReduce,
                           ShardGroup(bucket), bucket.elements, bucket.shards,
                           /*in_place=*/false, /*accumulate=*/key.micro_batch >
                                                   rank.Context().FirstMicroBatch(key.block)});
  const TensorName whole{TensorKind::kWholeGradients, 0, key.micro_batch, key.part};
  rank.Add(key, block, {rank.Whole(rank.Tensors().At(whole)), rank.Whole(bucket.gradients)});
  rank.Tensors().Drop(whole);
}

StepMemory ReductionMemory(const LowerContext& context, const InstructionKey& key) {
  return FreesBytes(Category::kGradients, context.BucketAt(key.part).elements * kFloatBytes);
}

constexpr StepRule kReduction{EmitReduction, ReductionMemory};

}  // namespace

void LowerShardReduction(const LowerContext& context, Skeleton& skeleton) {
  if (!ShardingOf(context.plan).gradients) return;
  Insertions insertions;
  for (const auto& [position, bucket, mb, last] : BucketCompletions(context, skeleton)) {
    const int block = skeleton[position].key.block;
    const InstructionKey key{InstructionKind::kReduceScatter, Pass::kBackward, block, mb, bucket};
    insertions.Behind(position, {key, &kReduction});
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

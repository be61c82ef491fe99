#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradient_reduction.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// What micro-batches add up to, in fp32; the whole gradients of this one are done with. Sums that
// leave the device are not added to here.
template <bool kAdds>
void EmitReduction(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const bool away = GradientsAreAway(rank.Context().plan);
  const bool scatters = ShardingOf(rank.Context().plan).optimizer;
  const TensorName name{TensorKind::kWholeGradients, 0, key.micro_batch, key.part};
  const Binding whole = rank.Whole(rank.Tensors().At(name));
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.micro_batch", Queue::kReduce,
                      SumGroup(bucket),   bucket.elements,      /*shards=*/1,
                      /*in_place=*/away,  kAdds && !away};
  if (scatters) {
    spec.kind = OpKind::kReduceScatter;
    spec.name = "reduce.to_shard";
    spec.group = ShardGroup(bucket);
    spec.shards = bucket.shards;
    spec.in_place = false;
  }
  spec.format = bucket.sums;
  std::vector<Binding> bindings = {whole};
  if (scatters && away) {
    const int shard = rank.NewBuffer(whole.bytes / bucket.shards, Category::kGradients,
                                     Space::kDevice, bucket.sums);
    rank.Tensors().Put({TensorKind::kReducedGradients, 0, key.micro_batch, key.part}, shard);
    bindings.push_back(rank.Whole(shard));
  } else if (scatters) {
    bindings.push_back(ShardOfGradients(rank, bucket));
  } else if (!away) {
    bindings.push_back(rank.Whole(bucket.gradients));
  }
  if (scatters || !away) rank.Tensors().Drop(name);
  rank.Add(key, rank.FindCollective(spec), bindings);
}

StepMemory ReductionMemory(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const std::int64_t bytes = BytesIn(bucket.sums, bucket.elements);
  const bool away = GradientsAreAway(context.plan);
  if (!away) return FreesBytes(Category::kGradients, bytes);
  if (!ShardingOf(context.plan).optimizer) return {};  // in place
  StepMemory memory = MakesBytes(Category::kGradients, bytes / bucket.shards);
  At(memory.at_end, Category::kGradients) -= bytes;
  return memory;
}

constexpr StepRule kFirst{EmitReduction<false>, ReductionMemory};
constexpr StepRule kFurther{EmitReduction<true>, ReductionMemory};

}  // namespace

void LowerMicroBatchReduction(const LowerContext& context, Skeleton& skeleton) {
  const Sharding sharding = ShardingOf(context.plan);
  if (!sharding.each_micro_batch) return;
  const bool away = GradientsAreAway(context.plan);
  const InstructionKind kind =
      sharding.optimizer ? InstructionKind::kReduceScatter : InstructionKind::kAllReduce;
  Insertions insertions;
  // What follows the arrival of gradients off the device stands behind the next ones' departure, so
  // that the host adds while they are copied.
  std::vector<SkeletonStep> later;
  const auto insert_later = [&](std::size_t position) {
    for (const SkeletonStep& step : later) insertions.Behind(position, step);
    later.clear();
  };
  std::size_t position = 0;
  for (const BucketCompletion& done : BucketCompletions(context, skeleton)) {
    position = done.position;
    const Bucket& bucket = context.BucketAt(done.bucket);
    if (!IsWholeForOne(context.plan, bucket)) continue;
    const int block = skeleton[position].key.block;
    if (!IsHeldOnce(context.plan, bucket)) {
      const InstructionKey key{kind, Pass::kBackward, block, done.micro_batch, done.bucket};
      insertions.Behind(position, {key, done.first ? &kFirst : &kFurther});
    }
    if (away) insertions.Behind(position, GradientsOutStep(done, block));
    insert_later(position);
    if (away && !done.first) later.push_back(GradientsAddStep(done, block));
    if (done.last && SumsReplicas(context.plan)) later.push_back(ReplicaStep(done.bucket));
    if (!away) insert_later(position);
  }
  insert_later(position);
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

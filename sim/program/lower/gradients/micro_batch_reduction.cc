#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/gradients/gradient_reduction.h"
#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// Reduces a micro-batch's gradients over ranks and adds them to the accumulated ones, which frees
// the whole gradients of the micro-batch. Offloaded gradients are added on the host instead.
template <bool kAdds>
StepDescription Reduction(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const bool offloaded = GradientsAreOffloaded(context.plan);
  const bool scatters = ShardingOf(context.plan).optimizer;
  CollectiveSpec spec{OpKind::kAllReduce,     "reduce.micro_batch", Queue::kReduce,
                      SumGroup(bucket),       bucket.elements,      /*shards=*/1,
                      /*in_place=*/offloaded, kAdds && !offloaded};
  if (scatters) {
    spec.kind = OpKind::kReduceScatter;
    spec.name = "reduce.to_shard";
    spec.group = ShardGroup(bucket);
    spec.shards = bucket.shards;
    spec.in_place = false;
  }
  spec.format = bucket.sums;
  const TensorName name = WholeGradientsName(key.micro_batch, key.part);
  if (offloaded && !scatters) return Collective(spec, {Uses(name)});
  std::vector<TensorUse> uses = {Frees(name, WholeGradientsShape(context, key.part))};
  if (offloaded) {
    uses.push_back(Makes({TensorKind::kReducedGradients, 0, key.micro_batch, key.part},
                         {uses.back().whole / bucket.shards, Category::kGradients, bucket.sums}));
  } else {
    uses.push_back(scatters ? ShardOfGradients(context, key.part)
                            : WholeState(&Bucket::gradients, key.part));
  }
  return Collective(spec, std::move(uses));
}

constexpr StepRule kFirst{Reduction<false>};
constexpr StepRule kFurther{Reduction<true>};

}  // namespace

// ZeRO-2 and gradient offload keep no whole gradients between micro-batches, so each bucket is
// reduced as soon as its last backward has completed it. This costs m reductions per step,
// overlapped with the rest of the backward.
void LowerMicroBatchReduction(const LowerContext& context, Skeleton& skeleton) {
  const Sharding sharding = ShardingOf(context.plan);
  if (!sharding.each_micro_batch) return;
  const bool offloaded = GradientsAreOffloaded(context.plan);
  const InstructionKind kind =
      sharding.optimizer ? InstructionKind::kReduceScatter : InstructionKind::kAllReduce;
  Insertions insertions;
  // Steps that follow the arrival of gradients on the host. They come after the next gradients have
  // left the device, so that the host adds while those are copied.
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
    if (offloaded) insertions.Behind(position, GradientsOutStep(done, block));
    insert_later(position);
    if (offloaded && !done.first) later.push_back(GradientsAddStep(done, block));
    if (done.last && SumsReplicas(context.plan)) later.push_back(ReplicaStep(done.bucket));
    if (!offloaded) insert_later(position);
  }
  insert_later(position);
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

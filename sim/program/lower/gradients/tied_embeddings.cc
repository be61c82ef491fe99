#include "sim/program/lower/gradients/gradient_reduction.h"
#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/lowerings.h"

namespace foretrain {
namespace {

// All-reduce over both ends of the pipeline. It covers only this rank's shard if reductions over dp
// have run before.
StepDescription TiedSum(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const Sharding sharding = ShardingOf(context.plan);
  const bool scattered = sharding.optimizer && sharding.each_micro_batch;
  const ShardRange all{0, bucket.elements};
  return GradientSum(
      context.plan,
      {OpKind::kAllReduce, "reduce.tied", Queue::kReduce, GroupKind::kEnds,
       scattered ? bucket.elements / bucket.shards : bucket.elements},
      scattered ? ShardOfGradients(context, key.part) : GradientsIn(context, key.part, all));
}

constexpr StepRule kTiedSum{TiedSum};

}  // namespace

// Both copies of the table see different gradients and must stay equal, so their gradients are
// added before the update.
void LowerTiedEmbeddings(const LowerContext& context, Skeleton& skeleton) {
  const int bucket = context.layout.tied_bucket;
  if (bucket < 0) return;
  // The other end of the pipeline finishes late, so this step comes after all other reductions on
  // its queue and delays none. Its key names the head, to differ from the reduction over dp.
  skeleton.push_back(
      {{InstructionKind::kAllReduce, Pass::kUpdate, context.stage.layers + 1, 0, bucket},
       &kTiedSum});
  if (context.plan.DataParallel() > 1 && !ShardingOf(context.plan).each_micro_batch) {
    for (const SkeletonStep& step : ReductionSteps(context, bucket)) skeleton.push_back(step);
  }
}

}  // namespace foretrain

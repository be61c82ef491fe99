#include "sim/program/lower/bucket_state.h"

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

Binding RangeOf(const RankBuilder& rank, const Bucket& bucket, bool sharded, int buffer,
                std::int64_t begin, std::int64_t end) {
  const std::int64_t first = sharded ? bucket.elements / bucket.shards * bucket.shard : 0;
  return rank.Part(buffer, begin - first, end - begin);
}

void MakeMoments(RankBuilder& rank, std::int64_t elements, Space space, Bucket& bucket) {
  const Plan& plan = rank.Context().plan;
  if (plan.optimizer == OptimizerKind::kSgd) return;
  const NumberFormat format = MomentFormatOf(plan);
  const bool codes = format == NumberFormat::kInt8;
  const std::int64_t bytes = codes ? elements : BytesIn(format, elements);
  bucket.moment1 = rank.NewState(bytes, Category::kOptimizerState, space);
  bucket.moment2 = rank.NewState(bytes, Category::kOptimizerState, space);
  if (!codes) return;
  const std::int64_t scales = BytesIn(format, elements) - elements;
  bucket.absmax1 = rank.NewState(scales, Category::kOptimizerState);
  bucket.absmax2 = rank.NewState(scales, Category::kOptimizerState);
}

}  // namespace

void MakeBucketState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  const Sharding sharding = ShardingOf(context.plan);
  rank.Rank().buckets = context.layout.buckets;
  rank.Rank().parameters = context.layout.places;
  for (Bucket& bucket : rank.Rank().buckets) {
    const std::int64_t shard = bucket.elements / bucket.shards;
    const OptimizerOffload offload =
        OffloadOf(context, static_cast<int>(&bucket - rank.Rank().buckets.data()));
    const auto state = [&](bool sharded, NumberFormat format, Category category, Space space) {
      return rank.NewState(BytesIn(format, sharded ? shard : bucket.elements), category, space,
                           format);
    };
    bucket.parameters = state(ShardsParameters(context.plan, bucket), bucket.weights,
                              Category::kParameters, ParameterSpace(context.plan));
    if (bucket.frozen) continue;
    bucket.gradients =
        state(sharding.gradients, bucket.sums, Category::kGradients, GradientSpace(context.plan));
    MakeMoments(rank, shard, offload.moments, bucket);
    if (!HasMasters(context.plan)) continue;
    bucket.master =
        state(/*sharded=*/true, NumberFormat::kFp32, Category::kMasterWeights, offload.master);
  }
}

Binding ParameterRangeOf(const RankBuilder& rank, const Bucket& bucket, std::int64_t begin,
                         std::int64_t end) {
  const bool sharded = ShardsParameters(rank.Context().plan, bucket);
  return RangeOf(rank, bucket, sharded, bucket.parameters, begin, end);
}

Binding UpdatedRangeOf(const RankBuilder& rank, const Bucket& bucket, std::int64_t begin,
                       std::int64_t end) {
  if (!HasMasters(rank.Context().plan)) return ParameterRangeOf(rank, bucket, begin, end);
  return RangeOf(rank, bucket, /*sharded=*/true, bucket.master, begin, end);
}

Binding GradientRangeOf(const RankBuilder& rank, const Bucket& bucket, std::int64_t begin,
                        std::int64_t end) {
  const bool sharded = ShardingOf(rank.Context().plan).gradients;
  return RangeOf(rank, bucket, sharded, bucket.gradients, begin, end);
}

Binding OwnShard(const RankBuilder& rank, const Bucket& bucket, int buffer) {
  const std::int64_t shard = bucket.elements / bucket.shards;
  return rank.Part(buffer, shard * bucket.shard, shard);
}

Binding ShardOfGradients(const RankBuilder& rank, const Bucket& bucket) {
  if (ShardingOf(rank.Context().plan).gradients) return rank.Whole(bucket.gradients);
  return OwnShard(rank, bucket, bucket.gradients);
}

}  // namespace foretrain

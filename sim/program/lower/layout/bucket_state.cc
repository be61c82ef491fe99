#include "sim/program/lower/layout/bucket_state.h"

#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/factored_moments.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/rank_builder.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {
namespace {

// Bytes of a range in a buffer that holds this rank's shard (`sharded`) or the whole bucket.
TensorUse RangeOf(const LowerContext& context, int number, std::int32_t Bucket::*buffer,
                  bool sharded, NumberFormat format, const ShardRange& range) {
  const Bucket& bucket = context.BucketAt(number);
  const std::int64_t first = sharded ? bucket.elements / bucket.shards * bucket.shard : 0;
  TensorUse use = WholeState(buffer, number);
  use.offset = BytesIn(format, range.begin - first);
  use.bytes = BytesIn(format, range.end - range.begin);
  use.format = format;
  return use;
}

// This rank's shard with its padding, as collectives need it.
ShardRange PaddedShard(const Bucket& bucket) {
  const std::int64_t shard = bucket.elements / bucket.shards;
  return {shard * bucket.shard, shard * (bucket.shard + 1)};
}

// Moments in 8 bits are codes of one byte each, with scales in buffers of their own.
void MakeMoments(RankBuilder& rank, std::int64_t elements, Space space, Bucket& bucket) {
  const Plan& plan = rank.Context().plan;
  const int count = bucket.orthogonal ? 1 : MomentsOf(plan.optimizer);
  if (count == 0) return;
  const NumberFormat format = MomentFormatOf(plan);
  const bool codes = format == NumberFormat::kInt8;
  const std::int64_t bytes = codes ? elements : BytesIn(format, elements);
  bucket.moment1 = rank.NewState(bytes, Category::kOptimizerState, space);
  if (count > 1) bucket.moment2 = rank.NewState(bytes, Category::kOptimizerState, space);
  if (!codes) return;
  const std::int64_t scales = BytesIn(format, elements) - elements;
  bucket.absmax1 = rank.NewState(scales, Category::kOptimizerState);
  bucket.absmax2 = rank.NewState(scales, Category::kOptimizerState);
}

}  // namespace

// Moments of the rows and of the columns of a bucket's tensors.
void MakeFactors(RankBuilder& rank, const std::vector<MatrixPlace>& tensors, Bucket& bucket) {
  const auto state = [&](std::int64_t numbers) {
    return numbers == 0 ? -1
                        : rank.NewState(BytesIn(NumberFormat::kFp32, numbers),
                                        Category::kOptimizerState, Space::kDevice);
  };
  bucket.moment1 = state(RowMomentsOf(tensors));
  bucket.moment2 = state(ColMomentsOf(tensors));
}

// State that ZeRO shards is held as this rank's shard, other state whole. All bytes of state follow
// from here, for the closed form of memory too.
void MakeBucketState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  const Sharding sharding = ShardingOf(context.plan);
  rank.Rank().buckets = context.layout.buckets;
  rank.Rank().parameters = context.layout.places;
  for (Bucket& bucket : rank.Rank().buckets) {
    const std::int64_t shard = bucket.elements / bucket.shards;
    const auto number = static_cast<std::size_t>(&bucket - rank.Rank().buckets.data());
    const OptimizerOffload offload = OffloadOf(context, static_cast<int>(number));
    const auto state = [&](bool sharded, NumberFormat format, Category category, Space space) {
      return rank.NewState(BytesIn(format, sharded ? shard : bucket.elements), category, space,
                           format);
    };
    bucket.parameters = state(ShardsParameters(context.plan, bucket), bucket.weights,
                              Category::kParameters, ParameterSpace(context.plan));
    if (bucket.frozen) continue;
    bucket.gradients =
        state(sharding.gradients, bucket.sums, Category::kGradients, GradientSpace(context.plan));
    if (bucket.factored) {
      MakeFactors(rank, context.layout.matrices[number], bucket);
    } else {
      MakeMoments(rank, shard, offload.moments, bucket);
    }
    if (context.plan.average_decay > 0) {
      bucket.average =
          state(/*sharded=*/true, NumberFormat::kFp32, Category::kOptimizerState, Space::kDevice);
    }
    if (!HasMasters(context.plan)) continue;
    bucket.master =
        state(/*sharded=*/true, NumberFormat::kFp32, Category::kMasterWeights, offload.master);
  }
}

TensorUse WholeState(std::int32_t Bucket::*buffer, int bucket) {
  TensorUse use;
  use.state = buffer;
  use.bucket = bucket;
  return use;
}

TensorUse ParametersIn(const LowerContext& context, int bucket, const ShardRange& range) {
  const Bucket& shape = context.BucketAt(bucket);
  return RangeOf(context, bucket, &Bucket::parameters, ShardsParameters(context.plan, shape),
                 shape.weights, range);
}

TensorUse GradientsIn(const LowerContext& context, int bucket, const ShardRange& range) {
  return RangeOf(context, bucket, &Bucket::gradients, ShardingOf(context.plan).gradients,
                 context.BucketAt(bucket).sums, range);
}

// Masters exist only for this rank's shard, so the offset counts from its begin.
TensorUse UpdatedIn(const LowerContext& context, int bucket, const ShardRange& range) {
  if (!HasMasters(context.plan)) return ParametersIn(context, bucket, range);
  return RangeOf(context, bucket, &Bucket::master, /*sharded=*/true, NumberFormat::kFp32, range);
}

TensorUse ShardOfParameters(const LowerContext& context, int bucket) {
  const Bucket& shape = context.BucketAt(bucket);
  return RangeOf(context, bucket, &Bucket::parameters, /*sharded=*/false, shape.weights,
                 PaddedShard(shape));
}

TensorUse ShardOfGradients(const LowerContext& context, int bucket) {
  return GradientsIn(context, bucket, PaddedShard(context.BucketAt(bucket)));
}

TensorName WholeGradientsName(int micro_batch, int bucket) {
  return {TensorKind::kWholeGradients, 0, micro_batch, bucket};
}

TensorShape WholeGradientsShape(const LowerContext& context, int bucket) {
  const Bucket& shape = context.BucketAt(bucket);
  return {BytesIn(shape.sums, shape.elements), Category::kGradients, shape.sums};
}

}  // namespace foretrain

#include <algorithm>
#include <utility>

#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradient_norm.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/scalars.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// Every rank has a part that no other counts: tensor-parallel and pipeline ranks always, those of
// dp where they hold shards or experts of their own.
bool IsReduced(const Plan& plan) {
  return plan.tp * plan.pp * ShardingOf(plan).shards > 1 || plan.DealsExperts();
}

void Append(const Binding& range, std::vector<Binding>& ranges) {
  const bool joins = !ranges.empty() && ranges.back().buffer == range.buffer &&
                     ranges.back().offset + ranges.back().bytes == range.offset;
  if (joins) {
    ranges.back().bytes += range.bytes;
  } else {
    ranges.push_back(range);
  }
}

// One of a shard's replicas counts it.
bool CountsItsShards(const LowerContext& context) {
  const Plan& plan = context.plan;
  return !ShardingOf(plan).optimizer || DataPlaceOf(plan, context.at).replica == 0;
}

void EmitNorm(RankBuilder& rank, const InstructionKey& key) {
  std::vector<Binding> ranges;
  for (std::size_t i = 0; i < rank.Rank().buckets.size(); ++i) {
    for (const ShardRange& range : CountedGradients(rank.Context(), static_cast<int>(i))) {
      Append(GradientRangeOf(rank, rank.Rank().buckets[i], range.begin, range.end), ranges);
    }
  }
  AddGradientScalar(rank, key, "norm", std::move(ranges), SquaredNormBlock, TensorKind::kNormMade,
                    TensorKind::kNormHere);
}

void EmitNormSum(RankBuilder& rank, const InstructionKey& key) {
  const Plan& plan = rank.Context().plan;
  const bool all = ShardingOf(plan).optimizer || plan.DealsExperts();
  const GroupKind group = all ? GroupKind::kWorld : GroupKind::kTpPp;
  EmitScalarSum(rank, key, "reduce.norm", group, TensorKind::kNormHere, TensorKind::kNorm);
}

constexpr StepRule kNorm{EmitNorm};
constexpr StepRule kNormSum{EmitNormSum};

}  // namespace

std::vector<ShardRange> CountedGradients(const LowerContext& context, int bucket) {
  std::vector<ShardRange> ranges;
  if (!CountsItsShards(context) || context.BucketAt(bucket).frozen) return ranges;
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  for (const ParameterPlace& place : context.layout.places) {
    if (place.bucket != bucket || !place.counted) continue;
    const std::int64_t size = (place.row_end - place.row_begin) * (place.col_end - place.col_begin);
    const std::int64_t begin = std::max(shard.begin, place.offset);
    const std::int64_t end = std::min(shard.end, place.offset + size);
    if (begin >= end) continue;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

void MakeNormState(RankBuilder& rank) {
  const Plan& plan = rank.Context().plan;
  if (plan.clip_norm <= 0) return;
  MakeScalarPair(rank, TensorKind::kNormHere, TensorKind::kNorm, IsReduced(plan));
  if (GradientsAreAway(plan)) MakeScalarAway(rank, TensorKind::kNormMade);
}

void LowerGradientNorm(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.clip_norm <= 0) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, 0), &kNorm});
  if (!IsReduced(context.plan) || context.plan.post_validation) return;
  skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNormScalar), &kNormSum});
}

}  // namespace foretrain

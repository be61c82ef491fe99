#include <algorithm>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/bucket_state.h"
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

// The gradients whose squares this rank adds: its shard of each bucket, less what another rank of
// the group counts. Neighbouring ranges are one.
std::vector<Binding> CountedRanges(RankBuilder& rank) {
  const RankProgram& program = rank.Rank();
  std::vector<Binding> ranges;
  if (!CountsItsShards(rank.Context())) return ranges;
  for (std::size_t i = 0; i < program.buckets.size(); ++i) {
    const ShardRange shard = ShardOf(program.buckets[i]);
    for (const ParameterPlace& place : program.parameters) {
      if (place.bucket != static_cast<int>(i) || !place.counted) continue;
      const std::int64_t size =
          (place.row_end - place.row_begin) * (place.col_end - place.col_begin);
      const std::int64_t begin = std::max(shard.begin, place.offset);
      const std::int64_t end = std::min(shard.end, place.offset + size);
      if (begin < end) Append(GradientRangeOf(rank, program.buckets[i], begin, end), ranges);
    }
  }
  return ranges;
}

void EmitNorm(RankBuilder& rank, const InstructionKey& key) {
  std::vector<Binding> bindings = CountedRanges(rank);
  std::vector<std::int64_t> elements;
  std::string name = "norm";
  for (const Binding& range : bindings) {
    elements.push_back(range.bytes / kFloatBytes);
    name += "." + std::to_string(elements.back());
  }
  const int block = rank.FindBlock(name, [&] { return SquaredNormBlock(elements); });
  bindings.push_back(rank.Whole(rank.Tensors().At({TensorKind::kNormHere})));
  rank.Add(key, block, bindings);
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

void MakeNormState(RankBuilder& rank) {
  const Plan& plan = rank.Context().plan;
  if (plan.clip_norm <= 0) return;
  MakeScalarPair(rank, TensorKind::kNormHere, TensorKind::kNorm, IsReduced(plan));
}

void LowerGradientNorm(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.clip_norm <= 0) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, 0), &kNorm});
  if (!IsReduced(context.plan)) return;
  skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNormScalar), &kNormSum});
}

}  // namespace foretrain

#include <algorithm>

#include "base/checked.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/overlap.h"
#include "sim/program/lower/post_validation.h"
#include "sim/program/lower/scalars.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// What an update of the bucket's shard works on, without the padding of the shard.
struct Updated {
  std::int64_t elements = 0;
  std::int64_t decayed = 0;
  std::string name;
};
Updated UpdatedOf(const Bucket& bucket, const char* name) {
  const ShardRange shard = ShardOf(bucket);
  const std::int64_t elements = shard.end - shard.begin;
  const std::int64_t decayed = std::clamp<std::int64_t>(bucket.decayed - shard.begin, 0, elements);
  return {elements, decayed,
          std::string(name) + "." + std::to_string(elements) + "." + std::to_string(decayed)};
}

Binding Scalar(RankBuilder& rank, TensorKind kind) { return rank.Whole(rank.Tensors().At({kind})); }

// Parameters, gradients, moments, and what scales or skips the update, in the order of the slots.
std::vector<Binding> UpdateBindings(RankBuilder& rank, const Bucket& bucket, TensorKind norm,
                                    TensorKind not_finite) {
  const Plan& plan = rank.Context().plan;
  const ShardRange shard = ShardOf(bucket);
  const std::int64_t elements = shard.end - shard.begin;
  std::vector<Binding> bindings = {UpdatedRangeOf(rank, bucket, shard.begin, shard.end),
                                   GradientRangeOf(rank, bucket, shard.begin, shard.end)};
  if (bucket.moment1 >= 0) {
    const bool codes = bucket.absmax1 >= 0;
    const std::int64_t bytes = codes ? elements : BytesIn(MomentFormatOf(plan), elements);
    bindings.push_back({bucket.moment1, 0, bytes});
    bindings.push_back({bucket.moment2, 0, bytes});
  }
  if (plan.clip_norm > 0) bindings.push_back(Scalar(rank, norm));
  if (plan.loss_scale > 0) bindings.push_back(Scalar(rank, not_finite));
  if (plan.loss_scale > 0 && bucket.moment1 >= 0) {
    bindings.push_back(Scalar(rank, TensorKind::kSkipped));
  }
  for (const Binding& scale : LossScaleOf(rank)) bindings.push_back(scale);
  return bindings;
}

void EmitOptimizerStep(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const Plan& plan = rank.Context().plan;
  const Updated updated = UpdatedOf(bucket, "optimizer");
  const int block = rank.FindBlock(
      updated.name, [&] { return OptimizerBlock(plan, updated.elements, updated.decayed); });
  const bool later = plan.post_validation;
  std::vector<Binding> bindings =
      UpdateBindings(rank, bucket, later ? TensorKind::kNormThen : TensorKind::kNorm,
                     later ? TensorKind::kNotFiniteThen : TensorKind::kNotFinite);
  if (bucket.absmax1 >= 0) {
    const std::int64_t scales = 4 * CeilDiv(updated.elements, kScaleBlock);
    bindings.push_back({bucket.absmax1, 0, scales});
    bindings.push_back({bucket.absmax2, 0, scales});
  }
  if (HasMasters(plan)) {
    const ShardRange shard = ShardOf(bucket);
    bindings.push_back(ParameterRangeOf(rank, bucket, shard.begin, shard.end));
  }
  rank.Add(key, block, bindings);
}

void EmitAmendment(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const Plan& plan = rank.Context().plan;
  const Updated updated = UpdatedOf(bucket, "amend");
  const int block = rank.FindBlock(
      updated.name, [&] { return AmendBlock(plan, updated.elements, updated.decayed); });
  std::vector<Binding> bindings =
      UpdateBindings(rank, bucket, TensorKind::kNorm, TensorKind::kNotFinite);
  if (plan.clip_norm > 0) bindings.push_back(Scalar(rank, TensorKind::kNormThen));
  if (plan.loss_scale > 0) bindings.push_back(Scalar(rank, TensorKind::kNotFiniteThen));
  rank.Add(key, block, bindings);
}

void EmitUpdatedGather(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  CollectiveSpec spec{OpKind::kAllGather, "gather.updated", Queue::kGather,
                      ShardGroup(bucket), bucket.elements,  bucket.shards};
  spec.format = bucket.weights;
  const int block = rank.FindCollective(spec);
  rank.Add(key, block, {OwnShard(rank, bucket, bucket.parameters), rank.Whole(bucket.parameters)});
}

constexpr StepRule kOptimizerStep{EmitOptimizerStep};
constexpr StepRule kUpdatedGather{EmitUpdatedGather};

constexpr StepRule kAmendment{EmitAmendment};

// The updates of a micro-batch, or of a step (0).
Skeleton UpdateSteps(const LowerContext& context, int micro_batch) {
  Skeleton updates, amendments;
  // Forward order: the next step's first blocks get their parameters first.
  for (int bucket = static_cast<int>(context.layout.buckets.size()) - 1; bucket >= 0; --bucket) {
    if (context.BucketAt(bucket).frozen) continue;
    const auto add = [&](Skeleton& to, InstructionKind kind, const StepRule& rule) {
      to.push_back({{kind, Pass::kUpdate, 0, micro_batch, bucket}, &rule});
    };
    const ShardRange shard = ShardOf(context.BucketAt(bucket));
    const bool updates_here = shard.end > shard.begin && !OffloadOf(context, bucket).away;
    const bool later = context.plan.post_validation;
    if (updates_here) add(updates, InstructionKind::kOptimizerStep, kOptimizerStep);
    if (updates_here && MayAmend(context)) add(amendments, InstructionKind::kAmend, kAmendment);
    if (SharesUpdate(context.plan, context.BucketAt(bucket))) {
      add(later ? amendments : updates, InstructionKind::kAllGather, kUpdatedGather);
    }
  }
  if (!context.plan.post_validation) return updates;
  for (const SkeletonStep& step : ValidationSteps(context)) updates.push_back(step);
  updates.insert(updates.end(), amendments.begin(), amendments.end());
  if (context.plan.loss_scale > 0) updates.push_back(SkipStep());
  return updates;
}

}  // namespace

void LowerOptimizer(const LowerContext& context, Skeleton& skeleton) {
  if (!context.plan.UpdatesEachMicroBatch()) {
    for (const SkeletonStep& step : UpdateSteps(context, 0)) skeleton.push_back(step);
    return;
  }
  Insertions insertions;
  const std::vector<std::size_t> ends = EndsOfBackwards(context, skeleton);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (const SkeletonStep& step : UpdateSteps(context, static_cast<int>(i))) {
      insertions.Behind(ends[i], step);
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/scalars.h"
#include "sim/program/lower/transfers/transfer_steps.h"
#include "sim/program/lower/update/adafactor.h"
#include "sim/program/lower/update/muon.h"
#include "sim/program/lower/update/overlap.h"
#include "sim/program/lower/update/post_validation.h"

namespace foretrain {
namespace {

// The elements that an update of the bucket's shard works on, without the shard's padding.
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

// The first bytes of a bucket's moments or of their scales; the rest is padding.
TensorUse StateOf(std::int32_t Bucket::*buffer, int bucket, std::int64_t bytes) {
  TensorUse use = WholeState(buffer, bucket);
  use.bytes = bytes;
  return use;
}

// Parameters, gradients, moments and the scalars that scale or skip the update, in the order of the
// slots.
std::vector<TensorUse> UsesOfUpdate(const LowerContext& context, int bucket, TensorKind norm,
                                    TensorKind not_finite) {
  const Plan& plan = context.plan;
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const std::int64_t elements = shard.end - shard.begin;
  const NumberFormat format = MomentFormatOf(plan);
  const int moments = MomentsOf(plan.optimizer);
  std::vector<TensorUse> uses = {UpdatedIn(context, bucket, shard),
                                 GradientsIn(context, bucket, shard)};
  const std::int64_t bytes = format == NumberFormat::kInt8 ? elements : BytesIn(format, elements);
  if (moments > 0) uses.push_back(StateOf(&Bucket::moment1, bucket, bytes));
  if (moments > 1) uses.push_back(StateOf(&Bucket::moment2, bucket, bytes));
  if (plan.clip_norm > 0) uses.push_back(Uses(norm));
  if (plan.loss_scale > 0) uses.push_back(Uses(not_finite));
  if (plan.loss_scale > 0 && plan.CorrectsBias()) uses.push_back(Uses(TensorKind::kSkipped));
  AddLossScale(plan, uses);
  return uses;
}

// With post-validation, the update reads the sums that are known so far (Then) and may be amended
// later.
StepDescription OptimizerStep(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  Updated updated = UpdatedOf(context.BucketAt(key.part), "optimizer");
  const bool later = plan.post_validation;
  std::vector<TensorUse> uses =
      UsesOfUpdate(context, key.part, later ? TensorKind::kNormThen : TensorKind::kNorm,
                   later ? TensorKind::kNotFiniteThen : TensorKind::kNotFinite);
  if (plan.optimizer == OptimizerKind::kAdamW && MomentFormatOf(plan) == NumberFormat::kInt8) {
    const std::int64_t scales = 4 * CeilDiv(updated.elements, kScaleBlock);
    uses.push_back(StateOf(&Bucket::absmax1, key.part, scales));
    uses.push_back(StateOf(&Bucket::absmax2, key.part, scales));
  }
  if (HasMasters(plan)) {
    uses.push_back(ParametersIn(context, key.part, ShardOf(context.BucketAt(key.part))));
  }
  if (plan.average_decay > 0) {
    uses.push_back(
        StateOf(&Bucket::average, key.part, BytesIn(NumberFormat::kFp32, updated.elements)));
  }
  return {std::move(updated.name),
          [&plan, elements = updated.elements, decayed = updated.decayed] {
            return OptimizerBlock(plan, elements, decayed);
          },
          std::move(uses)};
}

StepDescription Amendment(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  Updated updated = UpdatedOf(context.BucketAt(key.part), "amend");
  std::vector<TensorUse> uses =
      UsesOfUpdate(context, key.part, TensorKind::kNorm, TensorKind::kNotFinite);
  if (plan.clip_norm > 0) uses.push_back(Uses(TensorKind::kNormThen));
  if (plan.loss_scale > 0) uses.push_back(Uses(TensorKind::kNotFiniteThen));
  return {std::move(updated.name),
          [&plan, elements = updated.elements, decayed = updated.decayed] {
            return AmendBlock(plan, elements, decayed);
          },
          std::move(uses)};
}

// ZeRO-1 and -2: updated shards become whole parameters on all ranks. Rajbhandari et al. 2020, s.
// 5.
StepDescription UpdatedGather(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  CollectiveSpec spec{OpKind::kAllGather, "gather.updated", Queue::kGather,
                      ShardGroup(bucket), bucket.elements,  bucket.shards};
  spec.format = bucket.weights;
  spec.tensors = bucket.tensors;
  return Collective(
      spec, {ShardOfParameters(context, key.part), WholeState(&Bucket::parameters, key.part)});
}

constexpr StepRule kOptimizerStep{OptimizerStep};
constexpr StepRule kUpdatedGather{UpdatedGather};
constexpr StepRule kAmendment{Amendment};

// Updates of a micro-batch, or of a step (0).
Skeleton UpdateSteps(const LowerContext& context, int micro_batch) {
  Skeleton updates, amendments;
  // In forward order, so that the next step's first blocks get their parameters first. Each gather
  // overlaps the updates after it.
  for (int bucket = static_cast<int>(context.layout.buckets.size()) - 1; bucket >= 0; --bucket) {
    if (context.BucketAt(bucket).frozen) continue;
    const auto add = [&](Skeleton& to, InstructionKind kind, const StepRule& rule) {
      to.push_back({{kind, Pass::kUpdate, 0, micro_batch, bucket}, &rule});
    };
    const Bucket& of = context.BucketAt(bucket);
    if (of.orthogonal) {
      for (const SkeletonStep& step : MuonSteps(context, bucket)) updates.push_back(step);
    } else if (of.factored) {
      for (const SkeletonStep& step : AdafactorSteps(context, bucket)) updates.push_back(step);
    }
    const ShardRange shard = ShardOf(of);
    const bool updates_here = shard.end > shard.begin && !OffloadOf(context, bucket).offloaded;
    const bool later = context.plan.post_validation;
    if (updates_here && !of.orthogonal && !of.factored) {
      add(updates, InstructionKind::kOptimizerStep, kOptimizerStep);
    }
    if (updates_here && MayAmend(context)) add(amendments, InstructionKind::kAmend, kAmendment);
    if (SharesUpdate(context.plan, of)) {
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

// If each micro-batch is an update of its own, the updates follow its backward and reductions. Else
// all updates end the step.
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

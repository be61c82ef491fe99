#include "sim/program/lower/offload_state.h"

#include <algorithm>

#include "base/checked.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

constexpr std::int64_t kDiskBlock = 4096;  // bytes: where a transfer may begin

Space SpaceOf(OffloadTarget target, Space in_memory) {
  if (target == OffloadTarget::kNone) return Space::kDevice;
  return target == OffloadTarget::kNvme ? Space::kNvme : in_memory;
}

bool IsAway(const LowerContext& context, int bucket) {
  if (context.plan.offload_optimizer == OffloadTarget::kNone) return false;
  if (context.BucketAt(bucket).frozen) return false;
  std::int64_t before = 0, all = 0;
  for (std::size_t i = 0; i < context.layout.buckets.size(); ++i) {
    if (context.layout.buckets[i].frozen) continue;
    if (static_cast<int>(i) < bucket) before += context.layout.buckets[i].elements;
    all += context.layout.buckets[i].elements;
  }
  return static_cast<double>(before) < context.plan.offload_fraction * static_cast<double>(all);
}

}  // namespace

Space ParameterSpace(const Plan& plan) { return SpaceOf(plan.offload_parameters, Space::kPinned); }

Space GradientSpace(const Plan& plan) { return SpaceOf(plan.offload_gradients, Space::kPinned); }

OptimizerOffload OffloadOf(const LowerContext& context, int bucket) {
  const Plan& plan = context.plan;
  OptimizerOffload offload;
  if (!IsAway(context, bucket)) return offload;
  offload.away = true;
  offload.stream = plan.stream_optimizer;
  offload.delayed = plan.delayed_update;
  // What copies touch is pinned; what only the host's processors touch is not.
  offload.moments =
      SpaceOf(plan.offload_optimizer, plan.stream_optimizer ? Space::kPinned : Space::kHost);
  const bool device_copy = ParameterSpace(plan) == Space::kDevice;
  if (!plan.stream_optimizer && device_copy) {
    // A delayed update is copied to the device only when that is done with the step.
    offload.master =
        plan.delayed_update ? Space::kPinned : SpaceOf(plan.offload_optimizer, Space::kPinned);
  }
  return offload;
}

std::vector<StatePiece> StatePiecesOf(const LowerContext& context, int bucket) {
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const std::int64_t each = BytesIn(WeightFormat(context.plan), 1);
  const std::int64_t grain = kDiskBlock / each;
  const std::int64_t size = CeilDiv(CeilDiv(context.plan.bucket_bytes, each), grain) * grain;
  std::vector<StatePiece> pieces;
  for (std::int64_t begin = shard.begin; begin < shard.end; begin += size) {
    pieces.push_back({begin, std::min(begin + size, shard.end)});
  }
  return pieces;
}

}  // namespace foretrain

#include "sim/program/lower/offload/offload_state.h"

#include <algorithm>

#include "base/checked.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

constexpr std::int64_t kDiskBlock = 4096;  // bytes: alignment of transfers

// Space of an offload target; `in_memory` is the space that stands for host memory.
Space SpaceOf(OffloadTarget target, Space in_memory) {
  if (target == OffloadTarget::kNone) return Space::kDevice;
  return target == OffloadTarget::kNvme ? Space::kNvme : in_memory;
}

// Buckets are numbered in the order in which a backward completes them. So the share of elements
// before a bucket decides, without search.
bool IsOffloaded(const LowerContext& context, int bucket) {
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
  if (!IsOffloaded(context, bucket)) return offload;
  offload.offloaded = true;
  offload.stream = plan.stream_optimizer;
  offload.delayed = plan.delayed_update;
  // State that copies touch is pinned. State that only the host's processors touch is not.
  offload.moments =
      SpaceOf(plan.offload_optimizer, plan.stream_optimizer ? Space::kPinned : Space::kHost);
  const bool device_copy = ParameterSpace(plan) == Space::kDevice;
  if (!plan.stream_optimizer && device_copy) {
    // A delayed update reaches the device after the step, so its result waits in pinned memory.
    offload.master =
        plan.delayed_update ? Space::kPinned : SpaceOf(plan.offload_optimizer, Space::kPinned);
  }
  return offload;
}

std::vector<ShardRange> StatePiecesOf(const LowerContext& context, int bucket) {
  const std::int64_t end = ShardOf(context.BucketAt(bucket)).end;
  std::vector<ShardRange> pieces;
  for (int number = 0;; ++number) {
    const ShardRange piece = StatePieceOf(context, bucket, number);
    if (piece.begin >= end) return pieces;
    pieces.push_back(piece);
  }
}

ShardRange StatePieceOf(const LowerContext& context, int bucket, int piece) {
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const std::int64_t each = BytesIn(WeightFormat(context.plan), 1);
  const std::int64_t grain = kDiskBlock / each;
  const std::int64_t size = CeilDiv(CeilDiv(context.plan.bucket_bytes, each), grain) * grain;
  const std::int64_t begin = shard.begin + piece * size;
  return {begin, std::min(begin + size, shard.end)};
}

}  // namespace foretrain

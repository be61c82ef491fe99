// Offloads parameters to pinned memory or NVMe, and copies them to the device ahead of each use.
// Rajbhandari et al. 2021 (ZeRO-Infinity).
#include <array>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/parameter_copies.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// The tensor that comes to the device: this rank's shard, which a gather reads, or the bucket.
TensorShape ShapeOf(const LowerContext& context, const InstructionKey& key, Space space) {
  const Bucket& bucket = context.BucketAt(key.part);
  const bool sharded = ShardingOf(context.plan).parameters;
  return {BytesIn(bucket.weights, bucket.elements / (sharded ? bucket.shards : 1)),
          space == Space::kDevice ? Category::kCommunication : Category::kParameters,
          bucket.weights, space};
}

// The parameters in their space between uses.
TensorUse Stored(const LowerContext& context, const InstructionKey& key) {
  TensorUse use = WholeState(&Bucket::parameters, key.part);
  const TensorShape shape = ShapeOf(context, key, ParameterSpace(context.plan));
  use.bytes = shape.bytes;
  use.format = shape.format;
  return use;
}

// The copy in pinned memory that NVMe is read into.
TensorName NameOnWay(const LowerContext& context, const InstructionKey& key) {
  TensorName name = ParameterCopy(context, key, key.part);
  name.kind = name.kind == TensorKind::kForwardParameters ? TensorKind::kForwardParametersRead
                                                          : TensorKind::kBackwardParametersRead;
  return name;
}

StepDescription Read(const LowerContext& context, const InstructionKey& key) {
  const std::array<Move, 1> moves{Move{
      Stored(context, key), Makes(NameOnWay(context, key), ShapeOf(context, key, Space::kPinned))}};
  return Copies("parameters.read", {Space::kNvme, Space::kPinned}, /*state=*/false, moves);
}

// Copies a bucket or a shard to the device. The last block that reads a bucket frees it; the gather
// frees a shard.
StepDescription BringIn(const LowerContext& context, const InstructionKey& key) {
  const bool disk = ParameterSpace(context.plan) == Space::kNvme;
  const TensorUse from = disk
                             ? Frees(NameOnWay(context, key), ShapeOf(context, key, Space::kPinned))
                             : Stored(context, key);
  const bool gathers = GathersParameters(context.plan, context.BucketAt(key.part));
  const TensorName name = gathers ? ShardCopy(context, key) : ParameterCopy(context, key, key.part);
  const std::array<Move, 1> moves{Move{from, Makes(name, ShapeOf(context, key, Space::kDevice))}};
  return Copies("parameters.use", {Space::kPinned, Space::kDevice}, /*state=*/false, moves);
}

constexpr StepRule kRead{Read};
constexpr StepRule kIn{BringIn};

}  // namespace

// prefetch_depth uses are copied ahead, so the copy of one use runs while earlier blocks compute.
// NVMe reads run one use further ahead, since they feed the copies. ZeRO-3 gathers come after, from
// the copied shards.
void LowerParameterOffload(const LowerContext& context, Skeleton& skeleton) {
  const Space space = ParameterSpace(context.plan);
  if (space == Space::kDevice) return;
  const ParameterCopies copies(context, skeleton, [](const Plan&, const Bucket&) { return true; });
  const auto depth = static_cast<std::size_t>(context.plan.prefetch_depth);
  Insertions insertions;
  for (std::size_t g = 0; g < copies.count(); ++g) {
    const auto issue = [&](InstructionKind kind, const StepRule& rule, std::size_t by) {
      const PrefetchPlace prefetch = copies.PrefetchOf(g, by);
      for (const InstructionKey& use : copies.BegunBy(g)) {
        InstructionKey key = use;
        key.kind = kind;
        insertions.Before(prefetch.place, {key, &rule, prefetch.after});
      }
    };
    if (space == Space::kNvme) issue(InstructionKind::kNvmeRead, kRead, depth + 1);
    issue(InstructionKind::kCopyIn, kIn, depth);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

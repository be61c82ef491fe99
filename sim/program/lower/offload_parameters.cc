// Parameters wait between uses in pinned memory or on a disk, and are copied to the device before
// each, ahead of the compute. Rajbhandari et al. 2021 (ZeRO-Infinity).
#include <array>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_copies.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/parameter_copies.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// What comes to the device: this rank's shard, which a gather takes from there, or the bucket.
std::int64_t BytesOf(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const bool sharded = ShardingOf(context.plan).parameters;
  return BytesIn(bucket.weights, bucket.elements / (sharded ? bucket.shards : 1));
}

TensorName NameAway(const LowerContext& context, const InstructionKey& key) {
  TensorName name = ParameterCopy(context, key, key.part);
  name.kind = name.kind == TensorKind::kForwardParameters ? TensorKind::kForwardParametersRead
                                                          : TensorKind::kBackwardParametersRead;
  return name;
}

void EmitRead(RankBuilder& rank, const InstructionKey& key) {
  const LowerContext& context = rank.Context();
  const int to = rank.Tensors().Put(NameAway(context, key),
                                    rank.NewBuffer(BytesOf(context, key), Category::kParameters,
                                                   Space::kPinned, rank.BucketOf(key).weights));
  const std::array<Move, 1> moves{Move{rank.Whole(rank.BucketOf(key).parameters), rank.Whole(to)}};
  AddCopies(rank, key, "parameters.read", /*state=*/false, moves);
}

void EmitIn(RankBuilder& rank, const InstructionKey& key) {
  const LowerContext& context = rank.Context();
  const bool disk = ParameterSpace(context.plan) == Space::kNvme;
  const TensorName away = NameAway(context, key);
  const int from = disk ? rank.Tensors().At(away) : rank.BucketOf(key).parameters;
  if (disk) rank.Tensors().Drop(away);
  const bool sharded = GathersParameters(context.plan, rank.BucketOf(key));
  const int to =
      rank.Tensors().Put(sharded ? ShardCopy(context, key) : ParameterCopy(context, key, key.part),
                         rank.NewBuffer(BytesOf(context, key), Category::kCommunication,
                                        Space::kDevice, rank.BucketOf(key).weights));
  const std::array<Move, 1> moves{Move{rank.Whole(from), rank.Whole(to)}};
  AddCopies(rank, key, "parameters.use", /*state=*/false, moves);
}

StepMemory ReadMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  if (space != Space::kPinned) return {};
  return MakesBytes(Category::kParameters, BytesOf(context, key));
}
// A bucket is freed by the block that reads it last, a shard by the gather.
StepMemory InMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  if (space == Space::kDevice) return MakesBytes(Category::kCommunication, BytesOf(context, key));
  if (space != Space::kPinned || ParameterSpace(context.plan) != Space::kNvme) return {};
  return FreesBytes(Category::kParameters, BytesOf(context, key));
}
StepMemory InOnDevice(const LowerContext& context, const InstructionKey& key) {
  return InMemory(context, key, Space::kDevice);
}

constexpr StepRule kRead{EmitRead, nullptr, ReadMemory};
constexpr StepRule kIn{EmitIn, InOnDevice, InMemory};

}  // namespace

void LowerParameterOffload(const LowerContext& context, Skeleton& skeleton) {
  const Space space = ParameterSpace(context.plan);
  if (space == Space::kDevice) return;
  const ParameterCopies copies(context, skeleton, [](const Plan&, const Bucket&) { return true; });
  const auto depth = static_cast<std::size_t>(context.plan.prefetch_depth);
  Insertions insertions;
  for (std::size_t g = 0; g < copies.count(); ++g) {
    const auto issue = [&](InstructionKind kind, const StepRule& rule, std::size_t by) {
      const AheadOf ahead = copies.Ahead(g, by);
      for (const InstructionKey& use : copies.BegunBy(g)) {
        InstructionKey key = use;
        key.kind = kind;
        insertions.Before(ahead.place, {key, &rule, ahead.after});
      }
    };
    if (space == Space::kNvme) issue(InstructionKind::kNvmeRead, kRead, depth + 1);
    issue(InstructionKind::kCopyIn, kIn, depth);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

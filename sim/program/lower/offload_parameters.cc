// Parameters wait between uses in pinned memory or on a disk: each block's are copied to the device
// before each of its uses, ahead of the compute. Rajbhandari et al. 2021 (ZeRO-Infinity).
#include <array>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/model_block.h"
#include "sim/program/lower/offload_copies.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// What comes to the device: this rank's shard, which a gather takes from there, or the bucket.
std::int64_t BytesOf(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const bool sharded = ShardingOf(context.plan).parameters;
  return BytesIn(bucket.weights, bucket.elements / (sharded ? bucket.shards : 1));
}

TensorName NameAway(const InstructionKey& key) {
  TensorName name = ParameterCopy(key, key.part);
  name.kind = name.kind == TensorKind::kForwardParameters ? TensorKind::kForwardParametersRead
                                                          : TensorKind::kBackwardParametersRead;
  return name;
}

void EmitRead(RankBuilder& rank, const InstructionKey& key) {
  const int to = rank.Tensors().Put(
      NameAway(key), rank.NewBuffer(BytesOf(rank.Context(), key), Category::kParameters,
                                    Space::kPinned, rank.BucketOf(key).weights));
  const std::array<Move, 1> moves{Move{rank.Whole(rank.BucketOf(key).parameters), rank.Whole(to)}};
  AddCopies(rank, key, "parameters.read", /*state=*/false, moves);
}

void EmitIn(RankBuilder& rank, const InstructionKey& key) {
  const bool disk = ParameterSpace(rank.Context().plan) == Space::kNvme;
  const int from = disk ? rank.Tensors().At(NameAway(key)) : rank.BucketOf(key).parameters;
  if (disk) rank.Tensors().Drop(NameAway(key));
  const bool sharded = GathersParameters(rank.Context().plan, rank.BucketOf(key));
  const int to =
      rank.Tensors().Put(sharded ? ShardCopy(key) : ParameterCopy(key, key.part),
                         rank.NewBuffer(BytesOf(rank.Context(), key), Category::kCommunication,
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
  const std::vector<BlockUse> uses = ParameterUses(skeleton);
  const auto depth = static_cast<std::size_t>(context.plan.prefetch_depth);
  Insertions insertions;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const InstructionKey& use = skeleton[uses[u].begin].key;
    // Issued `by` uses ahead, and no earlier than the end of the one before those.
    const auto ahead = [&](InstructionKind kind, const StepRule& rule, std::size_t by) {
      const std::size_t place = uses[u < by ? 0 : u - by].begin;
      std::optional<InstructionKey> after;
      if (u > by) after = LastUseBefore(skeleton, uses, u - by - 1, place);
      for (const int bucket : context.BucketsOf(use.block)) {
        if (!ReadsBucket(context, use, bucket)) continue;
        const InstructionKey key{kind, use.pass, use.block, use.micro_batch, bucket};
        insertions.Before(place, {key, &rule, after});
      }
    };
    if (space == Space::kNvme) ahead(InstructionKind::kNvmeRead, kRead, depth + 1);
    ahead(InstructionKind::kCopyIn, kIn, depth);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

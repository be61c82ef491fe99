#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/model_block.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

void EmitGather(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block = rank.FindCollective({OpKind::kAllGather, "gather.parameters", Queue::kGather,
                                         GroupKind::kShard, bucket.elements, bucket.shards});
  const int whole =
      rank.Tensors().Put(ParameterCopy(key, key.part),
                         rank.NewBuffer(bucket.elements * kFloatBytes, Category::kCommunication));
  const int shard = rank.Tensors().Find(ShardCopy(key));  // of parameters that lie elsewhere
  rank.Add(key, block, {rank.Whole(shard >= 0 ? shard : bucket.parameters), rank.Whole(whole)});
}

// Freed by the block that reads it last.
StepMemory GatherMemory(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const std::int64_t whole = bucket.elements * kFloatBytes;
  StepMemory memory = MakesBytes(Category::kCommunication, whole);
  if (ParameterSpace(context.plan) != Space::kDevice) {
    At(memory.at_end, Category::kCommunication) -= whole / bucket.shards;
  }
  return memory;
}

constexpr StepRule kGather{EmitGather, GatherMemory};

}  // namespace

void LowerParameterGathering(const LowerContext& context, Skeleton& skeleton) {
  if (!ShardingOf(context.plan).parameters) return;
  const std::vector<BlockUse> uses = ParameterUses(skeleton);
  Insertions insertions;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const InstructionKey& use = skeleton[uses[u].begin].key;
    // Prefetch depth 1: issued before the use ahead of it, and no earlier than the end of the one
    // before that, so that two gathered blocks are live at most.
    const std::size_t place = uses[u == 0 ? 0 : u - 1].begin;
    std::optional<InstructionKey> after;
    if (u >= 2) after = skeleton[uses[u - 2].last].key;
    for (const int bucket : context.BucketsOf(use.block)) {
      const InstructionKey key{InstructionKind::kAllGather, use.pass, use.block, use.micro_batch,
                               bucket};
      insertions.Before(place, {key, &kGather, after});
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

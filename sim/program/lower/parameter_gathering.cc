#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/model_block.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

void EmitGather(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const int block = rank.FindCollective({OpKind::kAllGather, "gather.parameters", Queue::kGather,
                                         ShardGroup(bucket), bucket.elements, bucket.shards});
  const int whole =
      rank.Tensors().Put(ParameterCopy(key, key.part),
                         rank.NewBuffer(bucket.elements * kFloatBytes, Category::kCommunication));
  rank.Add(key, block, {rank.Whole(bucket.parameters), rank.Whole(whole)});
}

// Freed by the block that reads it last.
StepMemory GatherMemory(const LowerContext& context, const InstructionKey& key) {
  return MakesBytes(Category::kCommunication, context.BucketAt(key.part).elements * kFloatBytes);
}

constexpr StepRule kGather{EmitGather, GatherMemory};

// Consecutive steps that use one gathered copy: a block's pass, with the recomputation before it.
struct Use {
  std::size_t begin = 0;
  std::size_t last = 0;
};

bool ReadsParameters(const InstructionKey& key) {
  return key.kind == InstructionKind::kBlock && key.pass != Pass::kBackwardWeight &&
         !(key.block == 0 &&
           key.pass != Pass::kForward);  // the embedding's backward reads ids alone
}

std::vector<Use> FindUses(const Skeleton& skeleton) {
  std::vector<Use> uses;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    if (!ReadsParameters(key)) continue;
    const bool after_recompute = key.pass != Pass::kForward && key.pass != Pass::kRecompute &&
                                 i > 0 && skeleton[i - 1].key.pass == Pass::kRecompute;
    if (after_recompute) {
      uses.back().last = i;
    } else {
      uses.push_back({i, i});
    }
  }
  return uses;
}

// Where the head's forward goes on to gradients, its backward reads the final norm's parameters
// alone.
bool Reads(const LowerContext& context, const InstructionKey& use, int bucket) {
  const bool norm_alone = use.pass != Pass::kForward && HeadForwardMakesGradients(context.plan) &&
                          context.stage.KindOf(use.block) == BlockKind::kHead;
  return !norm_alone || context.RangeOf(use.block, kFinalNormWeight).bucket == bucket;
}

}  // namespace

void LowerParameterGathering(const LowerContext& context, Skeleton& skeleton) {
  if (!ShardingOf(context.plan).parameters) return;
  const std::vector<Use> uses = FindUses(skeleton);
  Insertions insertions;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const InstructionKey& use = skeleton[uses[u].begin].key;
    // Prefetch depth 1: issued before the use ahead of it, and no earlier than the end of the one
    // before that, so that two gathered blocks are live at most.
    const std::size_t place = uses[u == 0 ? 0 : u - 1].begin;
    std::optional<InstructionKey> after;
    if (u >= 2) after = skeleton[uses[u - 2].last].key;
    for (const int bucket : context.BucketsOf(use.block)) {
      if (!Reads(context, use, bucket)) continue;
      const InstructionKey key{InstructionKind::kAllGather, use.pass, use.block, use.micro_batch,
                               bucket};
      insertions.Before(place, {key, &kGather, after});
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

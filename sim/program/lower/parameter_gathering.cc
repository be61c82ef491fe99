#include <algorithm>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/model_block.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

std::int64_t WholeBytes(const Bucket& bucket) { return bucket.elements * kFloatBytes; }

// What is on the wire, where that is not the parameters themselves; else 0.
std::int64_t QuantizedBytes(const Plan& plan, const Bucket& bucket) {
  const NumberFormat format = GatherFormatOf(plan);
  if (format == NumberFormat::kFp32) return 0;
  return bucket.shards * BytesIn(format, bucket.elements / bucket.shards);
}

void EmitGather(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const Plan& plan = rank.Context().plan;
  const std::int64_t sent = QuantizedBytes(plan, bucket);
  std::vector<Binding> bindings = {rank.Whole(bucket.parameters)};
  int block = -1;
  if (sent == 0) {
    block = rank.FindCollective({OpKind::kAllGather, "gather.parameters", Queue::kGather,
                                 ShardGroup(bucket), bucket.elements, bucket.shards});
  } else {
    block = rank.FindBlock("gather.quantized." + std::to_string(bucket.elements) + "." +
                               std::to_string(static_cast<int>(ShardGroup(bucket))),
                           [&] {
                             return QuantizedGatherBlock(ShardGroup(bucket), bucket.elements,
                                                         bucket.shards, GatherFormatOf(plan));
                           });
    // Not in place: which bytes of the whole are this rank's would make the waits of ranks differ.
    const Category category = Category::kCommunication;
    bindings.push_back(rank.Whole(rank.NewBuffer(sent / bucket.shards, category)));
    bindings.push_back(rank.Whole(rank.NewBuffer(sent, category)));
  }
  const int whole = rank.Tensors().Put(
      ParameterCopy(key, key.part), rank.NewBuffer(WholeBytes(bucket), Category::kCommunication));
  bindings.push_back(rank.Whole(whole));
  rank.Add(key, block, bindings);
}

// Freed by the block that reads it last; what was sent when it is converted, and this rank's part
// of that, which is less than the result, before.
StepMemory GatherMemory(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  StepMemory memory = MakesBytes(Category::kCommunication, WholeBytes(bucket));
  const std::int64_t sent = QuantizedBytes(context.plan, bucket);
  At(memory.at_peak, Category::kCommunication) += sent;
  memory.peak_total += sent;
  return memory;
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
  const auto depth = static_cast<std::size_t>(context.plan.prefetch_depth);
  Insertions insertions;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const InstructionKey& use = skeleton[uses[u].begin].key;
    // Issued `depth` uses ahead, and no earlier than the end of the use before those, so that
    // depth + 1 gathered blocks are live at most.
    const std::size_t place = uses[u - std::min(u, depth)].begin;
    std::optional<InstructionKey> after;
    if (u > depth) after = skeleton[uses[u - depth - 1].last].key;
    for (const int bucket : context.BucketsOf(use.block)) {
      if (!Reads(context, use, bucket) || IsHeldOnce(context.plan, context.BucketAt(bucket))) {
        continue;
      }
      const InstructionKey key{InstructionKind::kAllGather, use.pass, use.block, use.micro_batch,
                               bucket};
      insertions.Before(place, {key, &kGather, after});
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

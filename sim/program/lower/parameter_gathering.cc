#include <algorithm>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/parameter_copies.h"
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
  const LowerContext& context = rank.Context();
  const Plan& plan = context.plan;
  const std::int64_t sent = QuantizedBytes(plan, bucket);
  const int shard =
      rank.Tensors().Find(ShardCopy(context, key));  // of parameters that lie elsewhere
  std::vector<Binding> bindings = {rank.Whole(shard >= 0 ? shard : bucket.parameters)};
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
  const int whole =
      rank.Tensors().Put(ParameterCopy(context, key, key.part),
                         rank.NewBuffer(WholeBytes(bucket), Category::kCommunication));
  bindings.push_back(rank.Whole(whole));
  rank.Add(key, block, bindings);
}

// Freed by the block that reads it last; what was sent when it is converted, and this rank's part
// of that, which is less than the result, before.
StepMemory GatherMemory(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  StepMemory memory = MakesBytes(Category::kCommunication, WholeBytes(bucket));
  const std::int64_t sent = QuantizedBytes(context.plan, bucket);
  std::int64_t more = sent;
  if (ParameterSpace(context.plan) != Space::kDevice) {
    // The copy of the shard is done with: at the end or, where it is converted, before that.
    const std::int64_t shard = WholeBytes(bucket) / bucket.shards;
    At(memory.at_end, Category::kCommunication) -= shard;
    if (sent > 0) more -= shard;
  }
  At(memory.at_peak, Category::kCommunication) += more;
  memory.peak_total += more;
  return memory;
}

constexpr StepRule kGather{EmitGather, GatherMemory};

}  // namespace

void LowerParameterGathering(const LowerContext& context, Skeleton& skeleton) {
  if (!ShardingOf(context.plan).parameters) return;
  const ParameterCopies copies(context, skeleton, GathersParameters);
  Insertions insertions;
  for (std::size_t g = 0; g < copies.count(); ++g) {
    const AheadOf ahead = copies.Ahead(g, static_cast<std::size_t>(context.plan.prefetch_depth));
    for (const InstructionKey& use : copies.BegunBy(g)) {
      InstructionKey key = use;
      key.kind = InstructionKind::kAllGather;
      insertions.Before(ahead.place, {key, &kGather, ahead.after});
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

#include <algorithm>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/parameter_copies.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

std::int64_t WholeBytes(const Plan& plan, const Bucket& bucket) {
  return BytesIn(GatheredFormat(plan, bucket), bucket.elements);
}
std::int64_t ShardBytes(const Bucket& bucket) {
  return BytesIn(bucket.weights, bucket.elements / bucket.shards);
}

// fp32 parameters are cast to the format of their use, and sent in that.
bool Casts(const Plan& plan, const Bucket& bucket) {
  return GatherFormatOf(plan) == NumberFormat::kFp32 &&
         bucket.weights != GatheredFormat(plan, bucket);
}

// What is on the wire, where that is not the parameters themselves nor what becomes of them; else
// 0.
std::int64_t QuantizedBytes(const Plan& plan, const Bucket& bucket) {
  const NumberFormat format = GatherFormatOf(plan);
  if (format == NumberFormat::kFp32 || bucket.weights == NumberFormat::kByte) return 0;
  return bucket.shards * BytesIn(format, bucket.elements / bucket.shards);
}

// The block of a gather, on the shapes of the bucket.
int FindGather(RankBuilder& rank, const Bucket& bucket) {
  const Plan& plan = rank.Context().plan;
  const GroupKind group = ShardGroup(bucket);
  const NumberFormat used = GatheredFormat(plan, bucket);
  const std::string sizes =
      std::to_string(bucket.elements) + "." + std::to_string(static_cast<int>(group));
  if (Casts(plan, bucket)) {
    return rank.FindBlock("gather.cast." + sizes, [&] {
      return CastGatherBlock(group, bucket.elements, bucket.shards, used);
    });
  }
  if (QuantizedBytes(plan, bucket) > 0) {
    return rank.FindBlock("gather.quantized." + sizes, [&] {
      return QuantizedGatherBlock(
          {group, bucket.elements, bucket.shards, GatherFormatOf(plan), bucket.weights, used});
    });
  }
  CollectiveSpec spec{OpKind::kAllGather, "gather.parameters", Queue::kGather, group,
                      bucket.elements,    bucket.shards};
  spec.format = used;
  return rank.FindCollective(spec);
}

void EmitGather(RankBuilder& rank, const InstructionKey& key) {
  const Bucket& bucket = rank.BucketOf(key);
  const LowerContext& context = rank.Context();
  const Plan& plan = context.plan;
  const std::int64_t sent = QuantizedBytes(plan, bucket);
  const int shard =
      rank.Tensors().Find(ShardCopy(context, key));  // of parameters that lie elsewhere
  std::vector<Binding> bindings = {rank.Whole(shard >= 0 ? shard : bucket.parameters)};
  const Category category = Category::kCommunication;
  const int block = FindGather(rank, bucket);
  // Not in place: which bytes of the whole are this rank's would make the waits of ranks differ.
  if (Casts(plan, bucket)) {
    bindings.push_back(
        rank.Whole(rank.NewBuffer(WholeBytes(plan, bucket) / bucket.shards, category)));
  } else if (sent > 0) {
    bindings.push_back(rank.Whole(rank.NewBuffer(sent / bucket.shards, category)));
    bindings.push_back(rank.Whole(rank.NewBuffer(sent, category)));
  }
  const NumberFormat used = GatheredFormat(plan, bucket);
  const int whole =
      rank.Tensors().Put(ParameterCopy(context, key, key.part),
                         rank.NewBuffer(WholeBytes(plan, bucket), category, Space::kDevice, used));
  bindings.push_back(rank.Whole(whole));
  rank.Add(key, block, bindings);
}

// Freed by the block that reads it last; what was sent when it is converted, and this rank's part
// of that, which is less than the result, before.
StepMemory GatherMemory(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const std::int64_t whole = WholeBytes(context.plan, bucket);
  StepMemory memory = MakesBytes(Category::kCommunication, whole);
  const std::int64_t sent = QuantizedBytes(context.plan, bucket);
  std::int64_t more = sent;
  if (Casts(context.plan, bucket)) more = whole / bucket.shards;
  if (ParameterSpace(context.plan) != Space::kDevice) {
    // The copy of the shard is done with: at the end or, where it is converted, before that.
    const std::int64_t shard = ShardBytes(bucket);
    At(memory.at_end, Category::kCommunication) -= shard;
    if (more > 0) more -= shard;
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

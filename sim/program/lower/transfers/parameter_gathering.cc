#include <string>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/parameter_copies.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// True if parameters are cast to the format of their use before they are sent.
bool Casts(const Plan& plan, const Bucket& bucket) {
  return GatherFormatOf(plan) == NumberFormat::kFp32 &&
         bucket.weights != GatheredFormat(plan, bucket);
}

// Bytes on the wire, if they are in a third format: neither the parameters' own nor that of their
// use. Else 0.
std::int64_t QuantizedBytes(const Plan& plan, const Bucket& bucket) {
  const NumberFormat format = GatherFormatOf(plan);
  if (format == NumberFormat::kFp32 || bucket.weights == NumberFormat::kByte) return 0;
  return bucket.shards * BytesIn(format, bucket.elements / bucket.shards);
}

// The block of a gather for the bucket's sizes.
StepDescription GatherBlock(const Plan& plan, const Bucket& bucket, std::vector<TensorUse> uses) {
  const GroupKind group = ShardGroup(bucket);
  const NumberFormat used = GatheredFormat(plan, bucket);
  const std::string sizes =
      std::to_string(bucket.elements) + "." + std::to_string(static_cast<int>(group));
  if (Casts(plan, bucket)) {
    return {"gather.cast." + sizes,
            [=, elements = bucket.elements, shards = bucket.shards] {
              return CastGatherBlock(group, elements, shards, used);
            },
            std::move(uses)};
  }
  if (QuantizedBytes(plan, bucket) > 0) {
    const QuantizedGatherSpec spec{
        group, bucket.elements, bucket.shards, GatherFormatOf(plan), bucket.weights, used};
    return {"gather.quantized." + sizes, [spec] { return QuantizedGatherBlock(spec); },
            std::move(uses)};
  }
  CollectiveSpec spec{OpKind::kAllGather, "gather.parameters", Queue::kGather, group,
                      bucket.elements,    bucket.shards};
  spec.format = used;
  return Collective(spec, std::move(uses));
}

// All-gather of one bucket into a new buffer. It is not in place, because the position of the
// rank's shard in the whole would make ranks wait differently. The last block that reads the whole
// frees it. A copied shard of offloaded parameters ends with the gather.
StepDescription Gather(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const Plan& plan = context.plan;
  const Category category = Category::kCommunication;
  const NumberFormat used = GatheredFormat(plan, bucket);
  const std::int64_t whole = BytesIn(used, bucket.elements);
  std::vector<TensorUse> uses;
  if (ParameterSpace(plan) == Space::kDevice) {
    uses.push_back(WholeState(&Bucket::parameters, key.part));
  } else {
    const std::int64_t shard = BytesIn(bucket.weights, bucket.elements / bucket.shards);
    uses.push_back(Frees(ShardCopy(context, key), {shard, category, bucket.weights}));
  }
  if (Casts(plan, bucket)) {
    uses.push_back(Borrows({whole / bucket.shards, category}));
  } else if (const std::int64_t sent = QuantizedBytes(plan, bucket); sent > 0) {
    uses.push_back(Borrows({sent / bucket.shards, category}));
    uses.push_back(Borrows({sent, category}));
  }
  uses.push_back(Makes(ParameterCopy(context, key, key.part), {whole, category, used}));
  return GatherBlock(plan, bucket, std::move(uses));
}

constexpr StepRule kGather{Gather};

}  // namespace

// ZeRO-3: gathers run prefetch_depth groups ahead of the compute, on a queue of their own. Each is
// throttled by an earlier use, so that memory stays bounded. Shards of offloaded parameters are
// copied in groups of all buckets, gathered or not. Gathers then have the same groups, so that none
// is issued before its shard's copy.
void LowerParameterGathering(const LowerContext& context, Skeleton& skeleton) {
  if (!ShardingOf(context.plan).parameters) return;
  const bool offloaded = ParameterSpace(context.plan) != Space::kDevice;
  const ParameterCopies copies(
      context, skeleton,
      offloaded ? [](const Plan&, const Bucket&) { return true; } : GathersParameters);
  Insertions insertions;
  for (std::size_t g = 0; g < copies.count(); ++g) {
    const PrefetchPlace prefetch =
        copies.PrefetchOf(g, static_cast<std::size_t>(context.plan.prefetch_depth));
    for (const InstructionKey& use : copies.BegunBy(g)) {
      if (!GathersParameters(context.plan, context.BucketAt(use.part))) continue;
      InstructionKey key = use;
      key.kind = InstructionKind::kAllGather;
      insertions.Before(prefetch.place, {key, &kGather, prefetch.after});
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

#include "sim/program/lower/gradients/partial_gradients.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/program/lower/gradients/offloaded_gradients.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/update/overlap.h"

namespace foretrain {
namespace {

// Runs on the tp queue and counts as tensor-parallel communication: the ranks of a tp group hold
// equal parameters.
StepDescription OwnRowSum(const LowerContext& context, const InstructionKey& key) {
  const ShardRange range = OwnRowGradients(context, key.part);
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.own_rows", Queue::kTp, GroupKind::kTp,
                      range.end - range.begin};
  spec.op_class = OpClass::kTpComm;
  return GradientSum(context.plan, spec, GradientsIn(context, key.part, range));
}

// One all-reduce for each range, one after the other.
StepDescription HeadSums(const LowerContext& context, const InstructionKey& key) {
  const bool offloaded = GradientsAreOffloaded(context.plan);
  const NumberFormat format = context.BucketAt(key.part).sums;
  std::vector<std::int64_t> elements;
  std::vector<TensorUse> uses;
  std::string name = "reduce.heads";
  for (const ShardRange& range : HeadGradients(context, key.part)) {
    elements.push_back(range.end - range.begin);
    name += "." + std::to_string(elements.back());
    uses.push_back(GradientsIn(context, key.part, range));
    if (offloaded) uses.push_back(Borrows({uses.back().bytes, Category::kCommunication, format}));
  }
  return {std::move(name), [=] { return HeadSumBlock(elements, format, offloaded); },
          std::move(uses)};
}

constexpr StepRule kOwnRowSum{OwnRowSum};
constexpr StepRule kHeadSums{HeadSums};

// Stands after the reductions over dp, so that each rank reduces only the part of its own shard. If
// every micro-batch updates, it stands at the end of each backward instead.
void AddSum(const LowerContext& context, SkeletonStep step, Skeleton& skeleton,
            Insertions& insertions) {
  if (!context.plan.UpdatesEachMicroBatch()) {
    skeleton.push_back(step);
    return;
  }
  for (const std::size_t end : EndsOfBackwards(context, skeleton)) {
    insertions.Behind(end, step);
    ++step.key.micro_batch;
  }
}

}  // namespace

// Such tensors lie next to each other in a bucket (stage.cc), so one range per bucket is enough.
ShardRange OwnRowGradients(const LowerContext& context, int bucket) {
  const ShardRange& all = context.layout.own_row_gradients[static_cast<std::size_t>(bucket)];
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const std::int64_t begin = std::max(all.begin, shard.begin);
  return {begin, std::max(begin, std::min(all.end, shard.end))};
}

// Ranges that touch are joined, so that layers whose heads lie side by side take one collective.
std::vector<ShardRange> HeadGradients(const LowerContext& context, int bucket) {
  std::vector<ShardRange> ranges;
  if (context.BucketAt(bucket).frozen) return ranges;
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  for (const ParameterPlace& place : context.layout.places) {
    // copies == 1: the head is on one rank alone, so its gradient is complete.
    if (place.bucket != bucket || place.copies == 1) continue;
    const std::int64_t size = (place.row_end - place.row_begin) * (place.col_end - place.col_begin);
    const std::int64_t begin = std::max(shard.begin, place.offset);
    const std::int64_t end = std::min(shard.end, place.offset + size);
    if (begin >= end) continue;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

void LowerOwnRowGradients(const LowerContext& context, Skeleton& skeleton) {
  Insertions insertions;
  for (int bucket = 0; bucket < static_cast<int>(context.layout.buckets.size()); ++bucket) {
    const ShardRange range = OwnRowGradients(context, bucket);
    if (range.end == range.begin) continue;
    // The key names the first layer, because block 0 means the reduction over dp and the head's
    // block that of a tied table.
    AddSum(context, {{InstructionKind::kAllReduce, Pass::kUpdate, 1, 0, bucket}, &kOwnRowSum},
           skeleton, insertions);
  }
  insertions.ApplyTo(skeleton);
}

void LowerHeadGradients(const LowerContext& context, Skeleton& skeleton) {
  Insertions insertions;
  for (int bucket = 0; bucket < static_cast<int>(context.layout.buckets.size()); ++bucket) {
    if (HeadGradients(context, bucket).empty()) continue;
    AddSum(context, {UpdateKey(InstructionKind::kHeadReduce, bucket), &kHeadSums}, skeleton,
           insertions);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

#include "sim/program/lower/gradients/head_gradients.h"

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

// One all-reduce for each range, one after the other.
StepDescription Sums(const LowerContext& context, const InstructionKey& key) {
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

constexpr StepRule kSums{Sums};

}  // namespace

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

// Stands after the data-parallel reductions, so that each rank reduces only the ranges of its own
// shard. If every micro-batch updates, it stands at the end of each backward instead.
void LowerHeadGradients(const LowerContext& context, Skeleton& skeleton) {
  const bool each = context.plan.UpdatesEachMicroBatch();
  Insertions insertions;
  for (int bucket = 0; bucket < static_cast<int>(context.layout.buckets.size()); ++bucket) {
    if (HeadGradients(context, bucket).empty()) continue;
    SkeletonStep step{{InstructionKind::kHeadReduce, Pass::kUpdate, 0, 0, bucket}, &kSums};
    if (!each) {
      skeleton.push_back(step);
      continue;
    }
    for (const std::size_t end : EndsOfBackwards(context, skeleton)) {
      insertions.Behind(end, step);
      ++step.key.micro_batch;
    }
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain

#include "sim/program/lower/head_gradients.h"

#include <algorithm>

#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/overlap.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// A sum a layer, one behind the other.
void EmitSums(RankBuilder& rank, const InstructionKey& key) {
  const bool away = GradientsAreAway(rank.Context().plan);
  const Bucket& bucket = rank.BucketOf(key);
  std::vector<std::int64_t> elements;
  std::vector<Binding> bindings;
  std::string name = "reduce.heads";
  for (const ShardRange& range : HeadGradients(rank.Context(), key.part)) {
    const Binding of = GradientRangeOf(rank, bucket, range.begin, range.end);
    elements.push_back(range.end - range.begin);
    name += "." + std::to_string(elements.back());
    bindings.push_back(of);
    if (!away) continue;
    bindings.push_back(rank.Whole(
        rank.NewBuffer(of.bytes, Category::kCommunication, Space::kDevice, bucket.sums)));
  }
  const int block = rank.FindBlock(name, [&] { return HeadSumBlock(elements, bucket.sums, away); });
  rank.Add(key, block, bindings);
}

StepMemory SumsMemory(const LowerContext& context, const InstructionKey& key) {
  std::int64_t most = 0;
  for (const ShardRange& range : HeadGradients(context, key.part)) {
    most = std::max(most, range.end - range.begin);
  }
  return GradientSumMemory(context.plan, most);
}

constexpr StepRule kSums{EmitSums, SumsMemory};

}  // namespace

std::vector<ShardRange> HeadGradients(const LowerContext& context, int bucket) {
  std::vector<ShardRange> ranges;
  if (context.BucketAt(bucket).frozen) return ranges;
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  for (const ParameterPlace& place : context.layout.places) {
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

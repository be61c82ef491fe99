#include "sim/search/space/tune_gathers.h"

#include <algorithm>

#include "sim/memory/peak_memory.h"
#include "sim/program/lower/layout/bucket_layout.h"
#include "sim/program/lower/layout/sharding.h"

namespace foretrain {
namespace {

// Bytes gathered by one stage.
struct BlockSizes {
  std::int64_t largest = 0;  // largest bucket that belongs to a layer
  std::int64_t all = 0;      // all buckets
};
// Sizes of the buckets that the plan has now. Only layers count for the bucket size, since
// embedding and head have buckets of other sizes.
BlockSizes SizesOf(const ModelSpec& model, const Plan& plan, int pp) {
  const Stage stage = StageOf(model, plan, pp);
  const BucketLayout layout = LayOutBuckets(model, plan, stage, {.pp = pp});
  BlockSizes sizes;
  for (std::size_t b = 0; b < stage.blocks.size(); ++b) {
    if (!IsLayer(stage.KindOf(stage.blocks[b]))) continue;
    for (const int bucket : layout.buckets_of_block[b]) {
      const Bucket& gathered = layout.buckets[static_cast<std::size_t>(bucket)];
      const std::int64_t bytes = BytesIn(gathered.weights, gathered.elements);
      sizes.largest = std::max(sizes.largest, bytes);
    }
  }
  for (const Bucket& bucket : layout.buckets) {
    sizes.all += BytesIn(bucket.weights, bucket.elements);
  }
  return sizes;
}

// Greedy search with one knob at a time, in the order of their effect: bucket size, prefetch depth,
// whole parameters. Every candidate costs one simulation, so a full search of the combinations
// would be too slow.
class Tuner {
 public:
  Tuner(const ModelSpec& model, const Plan& plan, std::int64_t memory_bytes,
        const std::function<std::optional<double>(const Plan&)>& seconds)
      : model_(model), memory_bytes_(memory_bytes), seconds_(seconds), best_(plan) {
    best_s_ = seconds_(plan);
  }

  // A plan without a forecast is returned unchanged. The sizes are maxima over the stages, because
  // all stages share one bucket size.
  Plan Run() {
    if (!best_s_) return best_;
    BlockSizes sizes;
    for (int pp = 0; pp < best_.pp; ++pp) {
      const BlockSizes stage = SizesOf(model_, best_, pp);
      sizes = {std::max(sizes.largest, stage.largest), std::max(sizes.all, stage.all)};
    }
    Bucket(sizes);
    for (const int depth : {2, 4}) {
      Plan plan = best_;
      plan.prefetch_depth = depth;
      Try(plan);
    }
    LeaveWhole(sizes);
    return best_;
  }

 private:
  // Doubles the bucket while the step gets faster. Fewer gathers cost less latency, but the first
  // one, which nothing hides, grows.
  void Bucket(const BlockSizes& sizes) {
    for (int layers = 2; sizes.largest * layers < 2 * sizes.all; layers *= 2) {
      Plan plan = best_;
      // The block that reaches the size closes the bucket.
      plan.gather_bytes = sizes.largest * (layers - 1) + 1;
      if (!Try(plan)) return;
    }
  }

  // This rank holds one shard anyway, so whole parameters cost only the other shards.
  void LeaveWhole(const BlockSizes& sizes) {
    const std::int64_t used = PredictFullestRank(model_, best_).peak.total;
    const double others = 1.0 - 1.0 / best_.Shards();
    const double room = static_cast<double>(memory_bytes_ - used) / others;
    Plan plan = best_;
    plan.unsharded_bytes = std::min(sizes.all, static_cast<std::int64_t>(std::max(0.0, room)));
    if (plan.unsharded_bytes > 0) Try(plan);
  }

  // Adopts the plan if it is valid, fits and is faster. Returns whether it did.
  bool Try(const Plan& plan) {
    if (!ValidatePlan(plan, model_)) return false;
    if (PredictFullestRank(model_, plan).peak.total > memory_bytes_) return false;
    const std::optional<double> step_s = seconds_(plan);
    if (!step_s || *step_s >= *best_s_) return false;
    best_ = plan;
    best_s_ = step_s;
    return true;
  }

  const ModelSpec& model_;
  std::int64_t memory_bytes_;
  const std::function<std::optional<double>(const Plan&)>& seconds_;
  Plan best_;
  std::optional<double> best_s_;
};

}  // namespace

bool MayTuneGathers(const Plan& plan) {
  return ShardingOf(plan).parameters && plan.gather_bytes == 0 && plan.unsharded_bytes == 0 &&
         plan.prefetch_depth == Plan{}.prefetch_depth;
}

Plan TuneGathers(const ModelSpec& model, const Plan& plan, std::int64_t memory_bytes,
                 const std::function<std::optional<double>(const Plan&)>& seconds) {
  return Tuner(model, plan, memory_bytes, seconds).Run();
}

}  // namespace foretrain

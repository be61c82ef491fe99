#include "sim/memory/peak_memory.h"

#include <map>
#include <tuple>

#include "sim/memory/block_memory.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/skeleton.h"
#include "sim/program/lower/stage.h"

namespace foretrain {
namespace {

class Walker {
 public:
  explicit Walker(const LowerContext& context)
      : context_(context),
        plan_(context.plan),
        stage_(context.stage),
        rows_(plan_.micro_batch * plan_.sequence),
        sharded_(plan_.zero_stage == 3 && plan_.dp > 1) {}

  PeakMemory Run(const Skeleton& skeleton) {
    AddState();
    Note({}, 0);
    for (const SkeletonStep& step : skeleton) Walk(step.key);
    return peak_;
  }

 private:
  std::int64_t& Live(Category category) { return live_[static_cast<std::size_t>(category)]; }

  void AddState() {
    for (const Bucket& bucket : context_.layout.buckets) {
      const std::int64_t whole = bucket.elements * kFloatBytes;
      const std::int64_t shard = whole / bucket.shards;
      Live(Category::kParameters) += sharded_ ? shard : whole;
      Live(Category::kGradients) += sharded_ ? shard : whole;
      Live(Category::kOptimizerState) += 2 * shard;
    }
    const bool clips = plan_.clip_norm > 0;
    const bool reduced = plan_.tp * plan_.pp * (plan_.zero_stage > 0 ? plan_.dp : 1) > 1;
    const int scalars = (plan_.dp * plan_.pp > 1 ? 2 : 1) + (clips ? (reduced ? 2 : 1) : 0);
    Live(Category::kWorkspace) += scalars * kFloatBytes;
  }

  // A moment with `more` bytes live beside the carried ones.
  void Note(const CategoryBytes& more, std::int64_t more_total) {
    std::int64_t total = more_total;
    for (const std::int64_t bytes : live_) total += bytes;
    if (total <= peak_.total) return;
    peak_.total = total;
    for (std::size_t c = 0; c < live_.size(); ++c) peak_.bytes[c] = live_[c] + more[c];
  }

  void Make(Category category, std::int64_t bytes) {
    Live(category) += bytes;
    Note({}, 0);
  }

  void Walk(const InstructionKey& key) {
    const std::int64_t boundary = rows_ * context_.model.hidden * kFloatBytes;
    const bool forward = key.pass == Pass::kForward;
    const Category tensor = forward ? Category::kActivations : Category::kWorkspace;
    const auto bucket = [&] {
      return context_.layout.buckets[static_cast<std::size_t>(key.part)].elements * kFloatBytes;
    };
    switch (key.kind) {
      case InstructionKind::kBlock:
        return WalkBlock(key);
      case InstructionKind::kLoadBatch:
        return Make(Category::kStaging, rows_ * kFloatBytes * (stage_.First() + stage_.Last()));
      case InstructionKind::kRecv:
        return Make(tensor, boundary);
      case InstructionKind::kSend:
        Live(tensor) -= boundary;
        return;
      case InstructionKind::kAllGather:
        if (key.pass != Pass::kUpdate) Make(Category::kCommunication, bucket());
        return;
      case InstructionKind::kReduceScatter:
        if (key.pass != Pass::kUpdate) Live(Category::kGradients) -= bucket();
        return;
      default:
        return;  // works in place on state
    }
  }

  void WalkBlock(const InstructionKey& key) {
    // Blocks of one kind and pass are alike, but for their buckets under ZeRO-3.
    const int distinct = sharded_ ? key.block : static_cast<int>(stage_.KindOf(key.block));
    const auto [found, is_new] = blocks_.try_emplace({distinct, key.pass});
    if (is_new) found->second = MemoryOfBlock(context_, key);
    Note(found->second.at_peak, found->second.peak_total);
    for (std::size_t c = 0; c < live_.size(); ++c) live_[c] += found->second.at_end[c];
  }

  const LowerContext& context_;
  const Plan& plan_;
  const Stage& stage_;
  std::int64_t rows_;
  bool sharded_;
  CategoryBytes live_{};
  PeakMemory peak_;
  std::map<std::pair<int, Pass>, BlockMemory> blocks_;
};

}  // namespace

PeakMemory PredictPeakMemory(const ModelSpec& model, const Plan& plan, int pp, int dp, int tp) {
  const Stage stage = StageOf(model, plan, pp);
  const BucketLayout layout = LayOutBuckets(model, plan, stage, dp, tp);
  const LowerContext context{model, plan, stage, layout, pp};
  return Walker(context).Run(LowerStep(context));
}

FullestRank PredictFullestRank(const ModelSpec& model, const Plan& plan) {
  FullestRank fullest;
  for (int pp = 0; pp < plan.pp; ++pp) {
    const PeakMemory peak = PredictPeakMemory(model, plan, pp, 0, 0);
    if (pp == 0 || peak.total > fullest.peak.total) fullest = {pp, peak};
  }
  return fullest;
}

}  // namespace foretrain

#include "sim/program/lower/skeleton.h"

namespace foretrain {
namespace {

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

InstructionKey GatherKey(const InstructionKey& use, int bucket) {
  return {InstructionKind::kAllGather, use.pass, use.block, use.micro_batch, bucket};
}

}  // namespace

void LowerZero3(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.zero_stage != 3 || context.plan.dp == 1) return;
  const std::vector<Use> uses = FindUses(skeleton);
  std::vector<Skeleton> before(skeleton.size()), behind(skeleton.size());
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const InstructionKey& key = skeleton[uses[u].begin].key;
    // Prefetch depth 1: issued before the use ahead of it, and no earlier than the end of the one
    // before that, so that two gathered blocks are live at most.
    const std::size_t place = uses[u == 0 ? 0 : u - 1].begin;
    std::optional<InstructionKey> after;
    if (u >= 2) after = skeleton[uses[u - 2].last].key;
    for (const int bucket :
         context.layout
             .buckets_of_block[static_cast<std::size_t>(key.block - context.stage.first_block)]) {
      before[place].push_back({GatherKey(key, bucket), after});
    }
  }
  for (int mb = 0; mb < static_cast<int>(context.plan.MicroBatches()); ++mb) {
    for (const auto& [position, bucket] : BucketCompletions(context, skeleton, mb)) {
      const InstructionKey& key = skeleton[position].key;
      behind[position].push_back(
          {{InstructionKind::kReduceScatter, Pass::kBackward, key.block, mb, bucket}, {}});
    }
  }
  Skeleton out;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    for (SkeletonStep& step : before[i]) out.push_back(std::move(step));
    out.push_back(std::move(skeleton[i]));
    for (SkeletonStep& step : behind[i]) out.push_back(std::move(step));
  }
  skeleton = std::move(out);
}

}  // namespace foretrain

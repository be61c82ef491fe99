#include "sim/program/lower/rank/skeleton.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace foretrain {

int LowerContext::FirstMicroBatch(int block, Pass pass) const {
  const Chunk& chunk = stage.ChunkOf(block);
  if (plan.schedule == ScheduleKind::kCustom && pass == Pass::kForward) {
    const auto& slots = plan.slots.SlotsOf(at.pp);
    const auto first = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) {
      return slot.pass == Pass::kForward &&
             &chunk == &stage.chunks[static_cast<std::size_t>(slot.chunk)];
    });
    FT_CHECK(first != slots.end());
    return first->micro_batch;
  }
  return Placement(plan).FirstMicroBatch(chunk.direction, static_cast<int>(plan.MicroBatches()));
}

// One pass over the skeleton: n insertions cost O(steps + n log n), and no position moves while
// strategies look for theirs. The sort is stable, so steps of one place keep the order of calls.
void Insertions::ApplyTo(Skeleton& skeleton) {
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Insertion& a, const Insertion& b) { return a.before < b.before; });
  Skeleton out;
  out.reserve(skeleton.size() + steps_.size());
  auto next = steps_.begin();
  for (std::size_t i = 0; i <= skeleton.size(); ++i) {
    for (; next != steps_.end() && next->before == i; ++next) out.push_back(next->step);
    if (i < skeleton.size()) out.push_back(skeleton[i]);
  }
  skeleton = std::move(out);
}

// A first pass counts the steps that add to each bucket and micro-batch; a second one counts down.
// A bucket is complete at zero, in whatever order the schedule runs blocks and micro-batches.
std::vector<BucketCompletion> BucketCompletions(const LowerContext& context,
                                                const Skeleton& skeleton) {
  // By micro-batch and bucket: number of passes still to come.
  std::map<std::pair<int, int>, int> missing;
  std::map<int, int> open;  // by bucket: micro-batches that are not complete
  for (const SkeletonStep& step : skeleton) {
    if (!MakesWeightGradients(step.key)) continue;
    for (const int bucket : context.BucketsOf(step.key.block)) {
      if (context.BucketAt(bucket).frozen) continue;
      if (++missing[{step.key.micro_batch, bucket}] == 1) ++open[bucket];
    }
  }
  std::vector<BucketCompletion> done;
  std::set<int> begun;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    if (!MakesWeightGradients(key)) continue;
    for (const int bucket : context.BucketsOf(key.block)) {
      if (context.BucketAt(bucket).frozen) continue;
      if (--missing[{key.micro_batch, bucket}] > 0) continue;
      const bool first = begun.insert(bucket).second;
      done.push_back({i, bucket, key.micro_batch, first, --open[bucket] == 0});
    }
  }
  return done;
}

// A recomputation and the pass after it are one use, because they read the same copy of the block's
// parameters. Pieces of a pass extend the use that the first piece began.
std::vector<BlockUse> BlockUses(const Skeleton& skeleton) {
  std::vector<BlockUse> uses;
  std::map<std::tuple<Pass, int, int>, std::size_t> begun;  // pass, block, micro-batch -> use
  bool recomputed = false;  // the block step before was the recomputation of this one
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    if (key.kind != InstructionKind::kBlock) continue;
    const auto [use, is_new] =
        begun.try_emplace({key.pass, key.block, key.micro_batch}, uses.size());
    if (is_new && recomputed) {
      use->second = uses.size() - 1;
    } else if (is_new) {
      uses.push_back({i, i});
    }
    uses[use->second].last = i;
    recomputed = key.pass == Pass::kRecompute;
  }
  return uses;
}

// Uses of two overlapped blocks may end after `position`; a step cannot wait for those.
std::optional<InstructionKey> LastUseBefore(const Skeleton& skeleton,
                                            const std::vector<BlockUse>& uses, std::size_t use,
                                            std::size_t position) {
  for (std::size_t u = use + 1; u-- > 0;) {
    if (uses[u].last < position) return skeleton[uses[u].last].key;
  }
  return std::nullopt;
}

}  // namespace foretrain

#include "sim/program/lower/transfers/parameter_copies.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/model/recompute.h"

namespace foretrain {
namespace {

// True if the rank holds the block and the bucket is one of its buckets.
bool Shares(const LowerContext& context, int block, int bucket) {
  const std::vector<int>& blocks = context.stage.blocks;
  if (!std::binary_search(blocks.begin(), blocks.end(), block)) return false;
  const std::vector<int>& buckets = context.BucketsOf(block);
  return std::find(buckets.begin(), buckets.end(), bucket) != buckets.end();
}

// Block uses that read parameters. A pass and the recomputation before it share one copy. Weight
// halves read no parameters.
std::vector<BlockUse> ParameterUses(const LowerContext& context, const Skeleton& skeleton) {
  std::vector<BlockUse> uses = BlockUses(skeleton);
  std::erase_if(uses, [&](const BlockUse& use) {
    const InstructionKey& key = skeleton[use.begin].key;
    // The embedding's backward reads ids, and the weights of its norm if it has one.
    if (key.block == 0 && key.pass != Pass::kForward) return !context.model.embedding_norm;
    return key.pass == Pass::kBackwardWeight;
  });
  return uses;
}

// True if the head has only the token table in the bucket, and only for multi-token prediction. The
// table is then read in the forward alone.
bool IsMtpTable(const LowerContext& context, int block, int bucket) {
  if (context.stage.KindOf(block) != BlockKind::kHead || context.stage.tied_copy != kMtpTable) {
    return false;
  }
  const std::vector<ParameterRange>& ranges = context.layout.ranges[context.stage.Local(block)];
  const auto lies = [bucket](const ParameterRange& range) { return range.bucket == bucket; };
  return lies(ranges[kMtpTable]) && std::count_if(ranges.begin(), ranges.end(), lies) == 1;
}

// True if the use reads parameters of the bucket, which must be one of its block's.
bool ReadsBucket(const LowerContext& context, const InstructionKey& use, int bucket) {
  if (use.block == 0 && use.pass != Pass::kForward) {
    return context.RangeOf(0, kEmbeddingNormWeight).bucket == bucket;
  }
  // A router's bias is frozen and read only when experts are chosen: in the forward, and again in a
  // recomputation. The head's layers of multi-token prediction recompute within its backward.
  const bool head = context.stage.KindOf(use.block) == BlockKind::kHead;
  const RecomputeKind recompute =
      head ? context.plan.recompute : RecomputeOf(context.plan, context.stage, use.block);
  const bool chooses = use.pass == Pass::kForward || recompute == RecomputeKind::kFull;
  if (context.BucketAt(bucket).frozen && !TrainsAdapters(context.plan) && !chooses) return false;
  if (use.pass != Pass::kForward && IsMtpTable(context, use.block, bucket)) return false;
  // If the head's forward makes gradients, its backward reads only the final norm's weights.
  const bool norm_alone = use.pass != Pass::kForward && HeadForwardMakesGradients(context.plan) &&
                          context.stage.KindOf(use.block) == BlockKind::kHead;
  return !norm_alone || context.RangeOf(use.block, kFinalNormWeight).bucket == bucket;
}

}  // namespace

TensorName ParameterCopy(const LowerContext& context, const InstructionKey& use, int bucket) {
  int first = use.block;
  while (Shares(context, first - 1, bucket)) --first;
  const bool forward = use.pass == Pass::kForward;
  return {forward ? TensorKind::kForwardParameters : TensorKind::kBackwardParameters, first,
          use.micro_batch, bucket};
}

TensorName ShardCopy(const LowerContext& context, const InstructionKey& use) {
  TensorName name = ParameterCopy(context, use, use.part);
  name.kind = name.kind == TensorKind::kForwardParameters ? TensorKind::kForwardShard
                                                          : TensorKind::kBackwardShard;
  return name;
}

// Layers may share a bucket of frozen router biases. In the backward only those that recompute read
// it, so the last reader need not be the last layer of the bucket.
bool EndsParameterCopy(const LowerContext& context, const InstructionKey& use, int bucket) {
  const int step = use.pass == Pass::kForward ? 1 : -1;
  InstructionKey next = use;
  for (next.block += step; Shares(context, next.block, bucket); next.block += step) {
    if (ReadsBucket(context, next, bucket)) return false;
  }
  return true;
}

// Walks the uses in issue order and begins a group where a use reads a copy that no earlier use has
// begun. A use that only goes on with copies of earlier ones begins none, so that buckets of
// several blocks count once in the depth of prefetching.
ParameterCopies::ParameterCopies(const LowerContext& context, const Skeleton& skeleton,
                                 bool (*copied)(const Plan& plan, const Bucket& bucket))
    : skeleton_(skeleton), uses_(ParameterUses(context, skeleton)) {
  std::set<std::tuple<TensorKind, int, int, int>> begun;
  for (std::size_t u = 0; u < uses_.size(); ++u) {
    const InstructionKey& use = skeleton[uses_[u].begin].key;
    Group group{u, {}};
    bool goes_on = false;  // reads a copy that an earlier use began
    for (const int bucket : context.BucketsOf(use.block)) {
      if (!ReadsBucket(context, use, bucket)) continue;
      if (!copied(context.plan, context.BucketAt(bucket))) continue;
      const TensorName name = ParameterCopy(context, use, bucket);
      if (begun.insert({name.kind, name.block, name.micro_batch, name.index}).second) {
        group.copies.push_back(
            {InstructionKind::kBlock, use.pass, use.block, use.micro_batch, bucket});
      } else {
        goes_on = true;
      }
    }
    if (!group.copies.empty() || !goes_on) groups_.push_back(std::move(group));
  }
}

// A copy that is issued earlier than its wait allows would hold up the queue, and one that waits
// for a later use would not run ahead: so both follow from the same group.
PrefetchPlace ParameterCopies::PrefetchOf(std::size_t group, std::size_t by) const {
  const std::size_t begin = groups_[group - std::min(group, by)].first_use;
  const std::size_t place = uses_[begin].begin;
  if (group <= by || begin == 0) return {place, std::nullopt};
  return {place, LastUseBefore(skeleton_, uses_, begin - 1, place)};
}

}  // namespace foretrain

// Gradient sums over data parallelism and over the two ends of a tied table.
#include <algorithm>

#include "sim/program/lower/skeleton.h"

namespace foretrain {
namespace {

InstructionKey ReductionKey(const Plan& plan, int bucket) {
  return UpdateKey(
      plan.zero_stage == 1 ? InstructionKind::kReduceScatter : InstructionKind::kAllReduce, bucket);
}

}  // namespace

std::vector<std::pair<std::size_t, int>> BucketCompletions(const LowerContext& context,
                                                           const Skeleton& skeleton,
                                                           int micro_batch) {
  const auto& of_block = context.layout.buckets_of_block;
  std::vector<int> missing(context.layout.buckets.size(), 0);
  for (const auto& buckets : of_block) {
    for (const int bucket : buckets) ++missing[static_cast<std::size_t>(bucket)];
  }
  std::vector<std::pair<std::size_t, int>> done;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    if (!MakesWeightGradients(key) || key.micro_batch != micro_batch) continue;
    for (const int bucket :
         of_block[static_cast<std::size_t>(key.block - context.stage.first_block)]) {
      if (--missing[static_cast<std::size_t>(bucket)] == 0) done.emplace_back(i, bucket);
    }
  }
  return done;
}

void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.dp == 1 || context.plan.zero_stage == 3) return;
  const int last = static_cast<int>(context.plan.MicroBatches()) - 1;
  const auto done = BucketCompletions(context, skeleton, last);
  Skeleton out;
  auto next = done.begin();
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    out.push_back(std::move(skeleton[i]));
    for (; next != done.end() && next->first == i; ++next) {
      // A tied table waits for its twin: LowerTiedEmbeddings puts both sums at the end.
      if (next->second == context.layout.twin_bucket) continue;
      out.push_back({ReductionKey(context.plan, next->second), {}});
    }
  }
  skeleton = std::move(out);
}

void LowerTiedEmbeddings(const LowerContext& context, Skeleton& skeleton) {
  const int bucket = context.layout.twin_bucket;
  if (bucket < 0) return;
  // The far end comes late: behind all other sums of the queue it delays none of them.
  skeleton.push_back({TiedSumKey(context.stage, bucket), {}});
  if (context.plan.dp > 1 && context.plan.zero_stage != 3) {
    skeleton.push_back({ReductionKey(context.plan, bucket), {}});
  }
}

}  // namespace foretrain

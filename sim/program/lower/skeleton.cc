#include "sim/program/lower/skeleton.h"

#include <algorithm>
#include <utility>

namespace foretrain {

StepMemory MakesBytes(Category category, std::int64_t bytes) {
  StepMemory memory;
  At(memory.at_peak, category) = bytes;
  At(memory.at_end, category) = bytes;
  memory.peak_total = bytes;
  return memory;
}

StepMemory FreesBytes(Category category, std::int64_t bytes) {
  StepMemory memory;
  At(memory.at_end, category) = -bytes;
  return memory;
}

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

std::vector<BucketCompletion> BucketCompletions(const LowerContext& context,
                                                const Skeleton& skeleton) {
  std::vector<int> blocks(context.layout.buckets.size(), 0);
  for (const auto& buckets : context.layout.buckets_of_block) {
    for (const int bucket : buckets) ++blocks[static_cast<std::size_t>(bucket)];
  }
  const auto micro_batches = static_cast<std::size_t>(context.plan.MicroBatches());
  std::vector<std::vector<int>> missing(micro_batches, blocks);
  std::vector<BucketCompletion> done;
  std::vector<int> completed(blocks.size(), -1);  // the last one in `done`
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    if (!MakesWeightGradients(key)) continue;
    std::vector<int>& left = missing[static_cast<std::size_t>(key.micro_batch)];
    for (const int bucket : context.BucketsOf(key.block)) {
      if (--left[static_cast<std::size_t>(bucket)] == 0) {
        int& before = completed[static_cast<std::size_t>(bucket)];
        done.push_back({i, bucket, key.micro_batch, before < 0});
        before = static_cast<int>(done.size()) - 1;
      }
    }
  }
  for (const int last : completed) {
    if (last >= 0) done[static_cast<std::size_t>(last)].last = true;
  }
  return done;
}

}  // namespace foretrain

#include "sim/program/lower/skeleton.h"

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

void Insertions::ApplyTo(Skeleton& skeleton) const {
  Skeleton out;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    out.insert(out.end(), before_[i].begin(), before_[i].end());
    out.push_back(skeleton[i]);
    out.insert(out.end(), behind_[i].begin(), behind_[i].end());
  }
  skeleton = std::move(out);
}

std::vector<std::pair<std::size_t, int>> BucketCompletions(const LowerContext& context,
                                                           const Skeleton& skeleton,
                                                           int micro_batch) {
  std::vector<int> missing(context.layout.buckets.size(), 0);
  for (const auto& buckets : context.layout.buckets_of_block) {
    for (const int bucket : buckets) ++missing[static_cast<std::size_t>(bucket)];
  }
  std::vector<std::pair<std::size_t, int>> done;
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    if (!MakesWeightGradients(key) || key.micro_batch != micro_batch) continue;
    for (const int bucket : context.BucketsOf(key.block)) {
      if (--missing[static_cast<std::size_t>(bucket)] == 0) done.emplace_back(i, bucket);
    }
  }
  return done;
}

}  // namespace foretrain

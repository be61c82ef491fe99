// The order of a rank's step before tensors are bound: a key and a rule for each instruction.
// Strategies insert their own steps (lowerings.h); none writes an edge, an allocation or a free.
#pragma once

#include <optional>
#include <vector>

#include "sim/program/category_bytes.h"
#include "sim/program/lower/stage.h"
#include "sim/spec/plan.h"
#include "traces/kinds.h"

namespace foretrain {

class RankBuilder;

// What the lowerings know of their rank.
struct LowerContext {
  const ModelSpec& model;
  const Plan& plan;
  const Stage& stage;
  const BucketLayout& layout;
  int pp = 0;

  const std::vector<int>& BucketsOf(int block) const {
    return layout.buckets_of_block[stage.Local(block)];
  }
  const ParameterRange& RangeOf(int block, int parameter) const {
    return layout.ranges[stage.Local(block)][static_cast<std::size_t>(parameter)];
  }
  const Bucket& BucketAt(int bucket) const {
    return layout.buckets[static_cast<std::size_t>(bucket)];
  }
  std::int64_t Rows() const { return plan.micro_batch * plan.sequence; }
};

// What an instruction adds to and takes from a rank's live bytes, relative to those before its
// first op.
struct StepMemory {
  CategoryBytes at_peak{};
  CategoryBytes at_end{};
  std::int64_t peak_total = 0;
};
StepMemory MakesBytes(Category category, std::int64_t bytes);
StepMemory FreesBytes(Category category, std::int64_t bytes);

// How a step becomes an instruction. The strategy that inserts a step gives it its rule, so that
// nothing else has to know the strategy.
struct StepRule {
  // Adds the instruction of `key`, whose turn it is, to the rank.
  void (*emit)(RankBuilder& rank, const InstructionKey& key) = nullptr;
  // The same in bytes, without emitting; null: works in place on what is there.
  StepMemory (*memory)(const LowerContext& context, const InstructionKey& key) = nullptr;
};

// `after`: throttles; the instruction waits for all ops of that earlier one.
struct SkeletonStep {
  InstructionKey key;
  const StepRule* rule = nullptr;  // static
  std::optional<InstructionKey> after = {};
};
using Skeleton = std::vector<SkeletonStep>;

// Steps to insert into a skeleton, by the position of a step that is there. Several at one place
// stand in the order of the calls.
class Insertions {
 public:
  explicit Insertions(const Skeleton& skeleton)
      : before_(skeleton.size()), behind_(skeleton.size()) {}

  void Before(std::size_t position, SkeletonStep step) { before_[position].push_back(step); }
  void Behind(std::size_t position, SkeletonStep step) { behind_[position].push_back(step); }
  // `skeleton` is the one that this was made for.
  void ApplyTo(Skeleton& skeleton) const;

 private:
  std::vector<Skeleton> before_, behind_;
};

constexpr InstructionKey BlockKey(Pass pass, int block, int micro_batch) {
  return {InstructionKind::kBlock, pass, block, micro_batch, 0};
}
constexpr InstructionKey UpdateKey(InstructionKind kind, int part) {
  return {kind, Pass::kUpdate, 0, 0, part};
}

// Whether the block pass makes weight gradients: kBackward or kBackwardWeight.
constexpr bool MakesWeightGradients(const InstructionKey& key) {
  return key.kind == InstructionKind::kBlock &&
         (key.pass == Pass::kBackward || key.pass == Pass::kBackwardWeight);
}

// After which step of the skeleton each bucket's gradients of `micro_batch` are complete: pairs of
// (position, bucket), ascending.
std::vector<std::pair<std::size_t, int>> BucketCompletions(const LowerContext& context,
                                                           const Skeleton& skeleton,
                                                           int micro_batch);

}  // namespace foretrain

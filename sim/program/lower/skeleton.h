// The order of a rank's step before tensors are bound: a key and a rule for each instruction.
// Strategies insert their own steps (lowerings.h); none writes an edge, an allocation or a free.
#pragma once

#include <optional>
#include <vector>

#include "sim/program/category_bytes.h"
#include "sim/program/lower/stage.h"
#include "sim/program/schedules/placement.h"
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
  RankCoordinates at;

  const std::vector<int>& BucketsOf(int block) const {
    return layout.buckets_of_block[stage.Local(block)];
  }
  const ParameterRange& RangeOf(int block, int parameter) const {
    return layout.ranges[stage.Local(block)][static_cast<std::size_t>(parameter)];
  }
  const Bucket& BucketAt(int bucket) const {
    return layout.buckets[static_cast<std::size_t>(bucket)];
  }
  std::int64_t Rows() const { return plan.micro_batch * plan.LocalSequence(); }
  // The first of the micro-batches that pass the block.
  int FirstMicroBatch(int block) const {
    const int micro_batches = static_cast<int>(plan.MicroBatches());
    return Placement(plan).FirstMicroBatch(stage.ChunkOf(block).direction, micro_batches);
  }
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
// While the instruction runs.
StepMemory BorrowsBytes(Category category, std::int64_t bytes);

// How a step becomes an instruction. The strategy that inserts a step gives it its rule, so that
// nothing else has to know the strategy.
struct StepRule {
  // Adds the instruction of `key`, whose turn it is, to the rank.
  void (*emit)(RankBuilder& rank, const InstructionKey& key) = nullptr;
  // The same in bytes, without emitting; null: works in place on what is there.
  StepMemory (*memory)(const LowerContext& context, const InstructionKey& key) = nullptr;
  // The same of another space than the device's; null: works in place there.
  StepMemory (*memory_in)(const LowerContext& context, const InstructionKey& key,
                          Space space) = nullptr;
  // Whether instructions of one kind of block and pass are alike, whatever the block.
  bool alike = false;
};

// `after`: throttles; the instruction waits for all ops of that earlier one. `ahead`: it works for
// the next step.
struct SkeletonStep {
  InstructionKey key;
  const StepRule* rule = nullptr;  // static
  std::optional<InstructionKey> after = {};
  bool ahead = false;
};
using Skeleton = std::vector<SkeletonStep>;

// Steps to insert into a skeleton, by the position of a step that is there. Several at one place
// stand in the order of the calls.
class Insertions {
 public:
  void Before(std::size_t position, const SkeletonStep& step) {
    steps_.push_back({position, step});
  }
  void Behind(std::size_t position, const SkeletonStep& step) { Before(position + 1, step); }
  // All positions lie in `skeleton`.
  void ApplyTo(Skeleton& skeleton);

 private:
  struct Insertion {
    std::size_t before = 0;
    SkeletonStep step;
  };
  std::vector<Insertion> steps_;
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

// The instructions of the compute that use a block's tensors together: all pieces of one pass, with
// the recomputation before it. All of a skeleton, by their beginnings; those of two blocks that
// take turns overlap.
struct BlockUse {
  std::size_t begin = 0;  // position
  std::size_t last = 0;
};
std::vector<BlockUse> BlockUses(const Skeleton& skeleton);
// The end of the latest of uses 0 to `use` that has ended before `position`: what throttles a step
// there.
std::optional<InstructionKey> LastUseBefore(const Skeleton& skeleton,
                                            const std::vector<BlockUse>& uses, std::size_t use,
                                            std::size_t position);

// After which step of the skeleton a bucket's gradients of one micro-batch are complete.
struct BucketCompletion {
  std::size_t position = 0;
  int bucket = 0;
  int micro_batch = 0;
  bool first = false;  // of the bucket's micro-batches in this order
  bool last = false;
};
// All of them, by ascending position. O(steps).
std::vector<BucketCompletion> BucketCompletions(const LowerContext& context,
                                                const Skeleton& skeleton);

}  // namespace foretrain

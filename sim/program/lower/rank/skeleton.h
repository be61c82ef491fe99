// The order of a rank's step before tensors are bound: a key and a rule for each instruction.
// Strategies insert their own steps (lowerings.h); none writes an edge, an allocation or a free.
#pragma once

#include <optional>
#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/config/schedule/placement.h"
#include "sim/program/lower/layout/bucket_layout.h"
#include "traces/kinds.h"

namespace foretrain {

class RankBuilder;

// The rank whose step is lowered, and its plan.
struct LowerContext {
  const ModelSpec& model;
  const Plan& plan;
  const Stage& stage;
  const BucketLayout& layout;
  RankCoordinates at;
  bool evaluates = false;  // forward passes alone

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
  // The micro-batch whose pass through the block comes first. Weight gradients are made in
  // ascending order of micro-batch; the forwards of a custom schedule may have any order.
  int FirstMicroBatch(int block, Pass pass) const;
};

struct StepDescription;  // step_description.h

// How a step becomes an instruction, and so what it costs. The strategy that inserts a step gives
// it its rule, so that nothing else has to know the strategy.
struct StepRule {
  // The instruction of `key`: its block and what it does to tensors.
  StepDescription (*describe)(const LowerContext& context, const InstructionKey& key) = nullptr;
  // Whether instructions of one kind of block and pass take the same bytes, whatever the block.
  bool alike = false;
};

struct SkeletonStep {
  InstructionKey key;
  const StepRule* rule = nullptr;  // has static storage
  std::optional<InstructionKey> after =
      {};              // waits for all ops of this earlier one; `nullopt`: none
  bool ahead = false;  // belongs to the next step's batch
};
using Skeleton = std::vector<SkeletonStep>;

// Steps to insert into a skeleton, by the position of an existing step. Several at one place keep
// the order of the calls.
class Insertions {
 public:
  void Before(std::size_t position, const SkeletonStep& step) {
    steps_.push_back({position, step});
  }
  void Behind(std::size_t position, const SkeletonStep& step) { Before(position + 1, step); }
  // All positions must lie in `skeleton`.
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

// True for block passes kBackward and kBackwardWeight.
constexpr bool MakesWeightGradients(const InstructionKey& key) {
  return key.kind == InstructionKind::kBlock &&
         (key.pass == Pass::kBackward || key.pass == Pass::kBackwardWeight);
}

// Block steps that use a block's tensors together: all pieces of one pass, with the recomputation
// before it. Uses of two blocks that take turns overlap.
struct BlockUse {
  std::size_t begin = 0;  // position
  std::size_t last = 0;
};
// All uses of a skeleton, in the order of their beginnings.
std::vector<BlockUse> BlockUses(const Skeleton& skeleton);
// End of the latest of uses 0 to `use` that has ended before `position`; a step there can wait for
// it. `nullopt` if none has.
std::optional<InstructionKey> LastUseBefore(const Skeleton& skeleton,
                                            const std::vector<BlockUse>& uses, std::size_t use,
                                            std::size_t position);

// The step that completes a bucket's gradients of one micro-batch.
struct BucketCompletion {
  std::size_t position = 0;
  int bucket = 0;
  int micro_batch = 0;
  bool first = false;  // no other micro-batch of the bucket is complete before
  bool last = false;   // no other is complete after
};
// All completions by ascending position. O(steps).
std::vector<BucketCompletion> BucketCompletions(const LowerContext& context,
                                                const Skeleton& skeleton);

}  // namespace foretrain

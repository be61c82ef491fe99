// Copies of parameters that are made for some uses and dropped behind them: gathered ones, and ones
// of parameters that lie off the device. Blocks whose parameters share a bucket share a copy.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/program/lower/skeleton.h"
#include "sim/program/lower/tensor_table.h"

namespace foretrain {

// The copy of a bucket that a pass of a block reads: one for all blocks of the bucket that a
// micro-batch passes one after the other, in the forward or, by any other pass, in the backward.
// Where there is none, block passes read the bucket's own buffer.
TensorName ParameterCopy(const LowerContext& context, const InstructionKey& use, int bucket);
// A copy of this rank's shard, for the gather of `use`, whose part is the bucket.
TensorName ShardCopy(const LowerContext& context, const InstructionKey& use);

// Whether the pass is the last to read its copy of the bucket.
bool EndsParameterCopy(const LowerContext& context, const InstructionKey& use, int bucket);

// Where in a skeleton to make copies that are used later, and the step whose end they wait for.
struct AheadOf {
  std::size_t place = 0;
  std::optional<InstructionKey> after;
};

// All copies of a skeleton, in groups that the same use begins.
class ParameterCopies {
 public:
  // `copied` tells the buckets whose parameters are copied.
  ParameterCopies(const LowerContext& context, const Skeleton& skeleton,
                  bool (*copied)(const Plan& plan, const Bucket& bucket));

  std::size_t count() const { return groups_.size(); }
  // For each copy of the group the pass that reads it first, with the bucket as its part.
  const std::vector<InstructionKey>& BegunBy(std::size_t group) const {
    return groups_[group].copies;
  }
  // Issued `by` groups ahead, and no earlier than the end of the one before those, so that copies
  // of by + 1 groups are live at most.
  AheadOf Ahead(std::size_t group, std::size_t by) const;

 private:
  struct Group {
    std::size_t first_use = 0;
    std::vector<InstructionKey> copies;
  };
  const Skeleton& skeleton_;
  std::vector<BlockUse> uses_;
  std::vector<Group> groups_;
};

}  // namespace foretrain

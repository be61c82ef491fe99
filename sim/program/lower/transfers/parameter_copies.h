// Copies of parameters that are made for some uses and dropped after them: gathered parameters, and
// device copies of offloaded ones. Blocks whose parameters share a bucket share a copy.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/tensor_table.h"

namespace foretrain {

// Name of the copy of a bucket that a pass of a block reads. All blocks of the bucket that a
// micro-batch passes in a row share it; forward and backward have one each. Without copies, passes
// read the bucket's own buffer.
TensorName ParameterCopy(const LowerContext& context, const InstructionKey& use, int bucket);
// Name of the copy of this rank's shard for the gather of `use`; use.part is the bucket.
TensorName ShardCopy(const LowerContext& context, const InstructionKey& use);

// True if the pass is the last to read its copy of the bucket.
bool EndsParameterCopy(const LowerContext& context, const InstructionKey& use, int bucket);

// Position in a skeleton for copies that are used later, and the step whose end they wait for.
struct PrefetchPlace {
  std::size_t place = 0;
  std::optional<InstructionKey> after;
};

// All copies of a skeleton, in groups that begin with the same use.
class ParameterCopies {
 public:
  // `copied` selects the buckets whose parameters are copied.
  ParameterCopies(const LowerContext& context, const Skeleton& skeleton,
                  bool (*copied)(const Plan& plan, const Bucket& bucket));

  std::size_t count() const { return groups_.size(); }
  // For each copy of the group, the pass that reads it first; its part is the bucket.
  const std::vector<InstructionKey>& BegunBy(std::size_t group) const {
    return groups_[group].copies;
  }
  // Place `by` groups ahead, and not before the end of the group before those. So at most by + 1
  // groups of copies are live.
  PrefetchPlace PrefetchOf(std::size_t group, std::size_t by) const;

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

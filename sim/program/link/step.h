// A rank's step as flat arrays, the form in which Link and Verify walk it: the queue of each op,
// and the bytes of the buffers it touches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

struct TensorAccess {
  std::int64_t begin = 0;  // bytes from the start of the buffer
  std::int64_t end = 0;
  std::int32_t buffer = 0;
  Access access = Access::kRead;

  bool operator==(const TensorAccess&) const = default;
};

// Ops are numbered in issue order from 0. A lane is the index of an op's queue in `queues`, which
// holds only the queues in use, so that tables by lane stay small.
struct FlatStep {
  std::vector<Queue> queues;               // by lane
  std::vector<std::uint8_t> lane;          // by op
  std::vector<std::int32_t> instruction;   // by op
  std::vector<std::int32_t> first_access;  // by op, and one past the last
  std::vector<TensorAccess> accesses;

  std::int32_t Ops() const { return static_cast<std::int32_t>(lane.size()); }
  std::size_t Lanes() const { return queues.size(); }
  std::uint8_t LaneOf(std::int32_t op) const { return lane[static_cast<std::size_t>(op)]; }
  Queue QueueOf(std::int32_t op) const { return queues[LaneOf(op)]; }
  std::span<const TensorAccess> AccessesOf(std::int32_t op) const {
    const auto i = static_cast<std::size_t>(op);
    const auto first = static_cast<std::size_t>(first_access[i]);
    return std::span(accesses).subspan(first,
                                       static_cast<std::size_t>(first_access[i + 1]) - first);
  }
};

// Flattens the step of `rank`. Absent operands are left out. Requires existing blocks, slots,
// bindings and buffers (FT_CHECK). O(operands).
FlatStep Flatten(const Program& program, const RankProgram& rank);

// Whether Link gives both ranks the same result: equal queues, accesses, throttles, and buffers
// apart from the fields that Link fills in. O(accesses + buffers), less if they differ early.
bool AreLinkedAlike(const RankProgram& a, const FlatStep& step_a, const RankProgram& b,
                    const FlatStep& step_b);

inline bool Writes(const TensorAccess& access) { return access.access != Access::kRead; }
inline bool Reads(const TensorAccess& access) { return access.access != Access::kWrite; }

// "rank 3: forward block 2 mb 1 op 4 (mlp.up) on compute", for messages.
std::string DescribeOp(const Program& program, const RankProgram& rank, const FlatStep& step,
                       std::int32_t op);

}  // namespace foretrain

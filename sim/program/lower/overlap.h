// What outlives a step where steps overlap (PipeDream, 2BW): tensors of micro-batches that are in
// flight, in rings, and older parameters that their passes use. Narayanan et al. 2019, s. 3.3, and
// 2021, s. 3.1.
//
//   PipeDream   rank r updates after each micro-batch, so that a forward uses the newest parameters
//               and its backward, p - 1 - r updates later, what was kept of them
//   2BW         an update a step: all passes of a step use the parameters of two updates ago, which
//               are the newest ones when the step before is at its end
#pragma once

#include <vector>

#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/tensor_table.h"

namespace foretrain {

// Micro-batches whose forward the rank has done, and whose backward it has not, when it begins a
// forward; 0 on the last rank and where steps do not overlap.
int LeadOf(const LowerContext& context);

// Whether the tensor, of any micro-batch, lies in a ring, which is state, so that no pass makes or
// frees it. Builds blocks: O(their ops).
bool IsInFlight(const LowerContext& context, const TensorName& name);

// Buffer of the parameters that a pass of a block uses, where no copy is made for it.
int ParametersFor(const RankBuilder& rank, const Bucket& bucket, const InstructionKey& key);

// For each micro-batch the position of the last step of its backward with its sums over ranks.
std::vector<std::size_t> EndsOfBackwards(const LowerContext& context, const Skeleton& skeleton);

}  // namespace foretrain

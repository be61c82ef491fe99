// Tensors that outlive a step if steps overlap (PipeDream, 2BW): rings for micro-batches in flight,
// and the older parameters that their passes use. Narayanan et al. 2019, s. 3.3, and 2021, s. 3.1.
//
//   PipeDream   Rank r updates after each micro-batch. A forward uses the newest parameters. Its
//               backward runs p - 1 - r updates later and uses the copy kept of them.
//   2BW         One update per step. All passes of a step use the parameters of two updates ago,
//               which are the newest ones when the step before ends.
#pragma once

#include <vector>

#include "sim/program/lower/rank/rank_builder.h"
#include "sim/program/lower/rank/tensor_table.h"

namespace foretrain {

// Micro-batches between their forward and their backward when the rank begins a forward. 0 on the
// last rank and if steps do not overlap.
int LeadOf(const LowerContext& context);

// True if the tensor, of any micro-batch, lies in a ring. Rings are state, so no pass makes or
// frees such a tensor. Builds blocks: O(their ops).
bool IsInFlight(const LowerContext& context, const TensorName& name);

// Name of a bucket's older parameters that passes of the micro-batch use, if there are any.
TensorName OlderName(int micro_batch, int bucket);

// By micro-batch: position of the last step of its backward, its reductions over ranks included.
std::vector<std::size_t> EndsOfBackwards(const LowerContext& context, const Skeleton& skeleton);

}  // namespace foretrain

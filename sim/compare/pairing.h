// Pairs each predicted op with its measured counterpart in one step of each run. join.h sums over a
// step, attribution.h explains differences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "traces/metrics/op_totals.h"
#include "traces/timeline.h"

namespace foretrain {

// One op of one rank of the measured run. At least one side has a value.
struct PairedOp {
  OpId op = kNoOp;
  std::int16_t rank = 0;
  std::optional<OpTotal> predicted{};
  std::optional<OpTotal> measured{};

  bool IsPair() const { return predicted.has_value() && measured.has_value(); }
  // Measured minus predicted time; both sides must have a value.
  std::int64_t ErrorNs() const { return measured->busy_ns - predicted->busy_ns; }
};

// Totals of the spans of `step`, sorted by (rank, op).
std::vector<OpTotal> OpTotalsOfStep(const Timeline& timeline, std::int32_t step);

// Pairs totals by op id; the result is sorted by (rank, op).
//
//   predicted, measured  one step each, sorted by (rank, op)
//   stands_for_rank      [measured rank]: the predicted rank that represents it. Empty: each rank
//                        represents itself
//
// One run may record an instruction as a whole and the other its ops. The whole is then paired with
// the sum of the ops on its queue. O(n log n).
std::vector<PairedOp> PairOps(std::span<const OpTotal> predicted, std::span<const OpTotal> measured,
                              std::span<const int> stands_for_rank);

// The pair of `op`, else the pair of its whole instruction, else null. `pairs` comes from PairOps.
// O(log n).
const PairedOp* FindPair(std::span<const PairedOp> pairs, int rank, OpId op);

}  // namespace foretrain

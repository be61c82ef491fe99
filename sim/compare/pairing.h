// The measured twin of each predicted op in one step of each run. Leaves out sums over a step
// (join.h) and putting the differences down to causes (attribution.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "traces/metrics/op_totals.h"
#include "traces/timeline.h"

namespace foretrain {

// One op on one rank of the measured run. At least one side has a value.
struct PairedOp {
  OpId op = kNoOp;
  std::int16_t rank = 0;
  std::optional<OpTotal> predicted{};
  std::optional<OpTotal> measured{};

  bool IsPair() const { return predicted.has_value() && measured.has_value(); }
  // Of a pair: measured less predicted time.
  std::int64_t ErrorNs() const { return measured->busy_ns - predicted->busy_ns; }
};

// The totals of the spans that serve `step`, sorted by (rank, op).
std::vector<OpTotal> OpTotalsOfStep(const Timeline& timeline, std::int32_t step);

// Pairs by op id; sorted by (rank, op).
//
//   predicted, measured  of one step each, sorted by (rank, op)
//   stands_for_rank      [measured rank]: the predicted rank that stands for it; empty: itself
//
// Where one side knows an instruction as a whole and the other its ops, the whole is paired with
// the sum of the ops that ran on its queue. O(n log n).
std::vector<PairedOp> PairOps(std::span<const OpTotal> predicted, std::span<const OpTotal> measured,
                              std::span<const int> stands_for_rank);

// The pair of `op`, or that of its whole instruction, or nothing. `pairs` as PairOps returns them.
// O(log n).
const PairedOp* FindPair(std::span<const PairedOp> pairs, int rank, OpId op);

}  // namespace foretrain

// Pairs each predicted op with the measured op of the same id. attribution.h says why they differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/metrics/op_totals.h"
#include "traces/timeline.h"

namespace foretrain {

// One op of one rank in a predicted and a measured step. Times are lengths of the union of its
// spans and include waiting for peers.
struct OpPair {
  OpId op = kNoOp;
  std::int64_t predicted_ns = 0;
  std::int64_t measured_ns = 0;
  std::int64_t bytes = 0;
  std::int16_t rank = 0;
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
};

struct LoneOp {
  OpId op = kNoOp;
  std::int64_t busy_ns = 0;
};

// Sums of op times of one class over all ranks.
struct ClassPair {
  OpClass op_class = OpClass::kGemm;
  std::int64_t ops = 0;
  double predicted_s = 0;
  double measured_s = 0;
};

struct RunJoin {
  int predicted_step = 0;
  int measured_step = 0;
  double predicted_step_s = 0;  // longest step window of any rank
  double measured_step_s = 0;
  std::vector<OpPair> pairs;       // sorted by (rank, op)
  std::vector<ClassPair> classes;  // classes that have ops, in the order of OpClass
  // Ops without a counterpart, sorted by (rank, op).
  std::vector<LoneOp> only_predicted, only_measured;
  // Sum over pairs of w * |measured - predicted| / predicted, with w = predicted / sum of
  // predicted. Compute ops only. Absent: no pairs of compute ops.
  std::optional<double> op_error;
};

// The step of median length among the steps from `first` on (the lower of the middle two). A step
// is as long as its longest window on any rank. Absent: there is no such step.
std::optional<int> MedianStep(const Timeline& timeline, int first);

// Joins one step of each timeline on (rank, op). Op ids say what an op does, so that different
// programs join where they do the same work. The caller compares program hashes and reports a
// difference. Both timelines are sorted. O(n log n).
RunJoin JoinRuns(const Timeline& predicted, int predicted_step, const Timeline& measured,
                 int measured_step);

// Sums by class over all ops of the two steps, also those without a counterpart. This is all that
// runs of different programs can be compared by. ClassPair::ops counts measured ops. O(n log n).
std::vector<ClassPair> ClassesOfAll(const Timeline& predicted, int predicted_step,
                                    const Timeline& measured, int measured_step);

}  // namespace foretrain

// Puts each predicted op beside its measured twin. Leaves out why they differ: attribution.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/metrics/op_totals.h"
#include "traces/timeline.h"

namespace foretrain {

// One op of one rank in one predicted and one measured step; times are lengths of the union of its
// spans, waiting for peers included.
struct OpPair {
  OpId op = kNoOp;
  std::int64_t predicted_ns = 0;
  std::int64_t measured_ns = 0;
  std::int64_t bytes = 0;
  std::int16_t rank = 0;
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
};

// A class of ops over all ranks: sums of op times.
struct ClassPair {
  OpClass op_class = OpClass::kGemm;
  std::int64_t ops = 0;
  double predicted_s = 0;
  double measured_s = 0;
};

struct RunJoin {
  int predicted_step = 0;
  int measured_step = 0;
  double predicted_step_s = 0;  // longest window of any rank
  double measured_step_s = 0;
  std::vector<OpPair> pairs;        // sorted by (rank, op)
  std::vector<ClassPair> classes;   // those with ops, in the order of OpClass
  std::int64_t only_predicted = 0;  // ops without a twin
  std::int64_t only_measured = 0;
  // Sum over pairs of w |measured - predicted| / predicted with w = predicted / sum of predicted,
  // compute ops alone; nothing without pairs.
  std::optional<double> op_error;
};

// The step whose longest window is the median over the steps from `first` on (the lower of the
// middle two); nothing when there is none.
std::optional<int> MedianStep(const Timeline& timeline, int first);

// Joins one step of each timeline on (rank, op). Ids say what an op is, so runs of different
// programs join where they do the same; the caller compares program hashes and says so. Both are
// sorted. O(n log n).
RunJoin JoinRuns(const Timeline& predicted, int predicted_step, const Timeline& measured,
                 int measured_step);

// Sums by class over all ops of the two steps, those without a twin too: what can be said of runs
// of different programs. `ops` are the measured ones. O(n log n).
std::vector<ClassPair> ClassesOfAll(const Timeline& predicted, int predicted_step,
                                    const Timeline& measured, int measured_step);

}  // namespace foretrain

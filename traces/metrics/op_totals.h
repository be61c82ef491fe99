// Time of each op, the input of the comparison of two runs (sim/compare).
#pragma once

#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// All spans of one op, rank and step.
struct OpTotal {
  OpId op = kNoOp;
  std::int64_t busy_ns = 0;   // length of the union of its spans over all queues
  std::int64_t start_ns = 0;  // of the first
  std::int64_t end_ns = 0;    // of the last
  std::int64_t ready_ns = 0;  // of the first
  std::int64_t bytes = 0;     // summed
  std::int32_t step = 0;
  std::int32_t spans = 0;
  std::int16_t rank = 0;
  Queue queue = Queue::kCompute;             // of the first
  OpClass op_class = OpClass::kMemoryBound;  // of the first
};

// Totals of each op of `timeline`, sorted by (rank, step, op). Spans without an op are skipped. If
// an op has spans on the device, its launches on the host queue are left out; an op that runs only
// on the host is counted there. O(n log n).
std::vector<OpTotal> OpTotals(const Timeline& timeline);

}  // namespace foretrain

// The time each op took: what the join of two runs compares. Leaves out the join (sim/compare).
#pragma once

#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// All spans of one op of one rank and step.
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

// Totals of each op of `timeline`, sorted by (rank, step, op). Spans without an op are left out. An
// op with spans on the device leaves its launches on the host queue out; one that runs on the host
// alone is counted there. O(n log n).
std::vector<OpTotal> OpTotals(const Timeline& timeline);

}  // namespace foretrain

// A run's spans and memory samples in memory, predicted or measured. traces/store.h stores them,
// traces/metrics computes with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

// One op on one queue, or a whole instruction if OpNumber(op) == kWholeInstruction.
struct Span {
  std::int64_t start_ns = 0;  // since the run's origin
  std::int64_t end_ns = 0;    // >= start_ns
  OpId op = kNoOp;
  std::int64_t bytes = 0;     // moved by a copy or collective: this rank's input; 0 for compute
  std::int64_t ready_ns = 0;  // communication: this rank arrived; compute: inputs were ready
  std::int32_t step = 0;      // step of the batch that it serves
  std::int16_t rank = 0;
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
};
static_assert(sizeof(Span) <= 64);

// Live bytes of one category on one rank from `time_ns` until its next sample.
struct MemorySample {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;
  std::int16_t rank = 0;
  Category category = Category::kActivations;
  Space space = Space::kDevice;
};

// One step of one rank: from the earliest possible start of its first op to the end of its last.
struct StepWindow {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t step = 0;
  std::int16_t rank = 0;
};

// Spans are sorted by (rank, queue, start_ns); spans of one queue do not overlap.
struct Timeline {
  int world = 0;  // ranks
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
  std::vector<StepWindow> steps;
  std::map<OpId, std::string> op_names;  // names such as "mlp.up"; keys have micro-batch 0
};

// Sorts spans by (rank, queue, start_ns), memory and steps by (rank, time). Samples of one rank and
// moment keep their order: the last of a category counts. O(n) if already sorted.
void SortTimeline(Timeline& timeline);

// The key of `op` in `op_names`: the same id with micro-batch 0. kNoOp stays kNoOp.
OpId NameKey(OpId op);

}  // namespace foretrain

// A run's spans and memory samples in memory, predicted or measured alike. Leaves out storage
// (traces/store.h) and arithmetic on timelines (traces/metrics/).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

// One op (or, with OpNumber(op) == kWholeInstruction, one instruction) on one queue. Plain data.
struct Span {
  std::int64_t start_ns = 0;  // since the run's origin
  std::int64_t end_ns = 0;    // >= start_ns
  OpId op = kNoOp;
  std::int64_t bytes = 0;  // moved by a copy or collective, this rank's input; 0 for compute
  std::int64_t ready_ns =
      0;  // communication: when this rank had arrived; compute: when its inputs were there
  std::int32_t step = 0;  // step of the batch it serves
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

// One step of one rank: from the moment its first op may start to the end of its last.
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
  std::map<OpId, std::string>
      op_names;  // "mlp.up": what the block calls an op; key has micro-batch 0
};

// Sorts spans by (rank, queue, start_ns), memory and steps by (rank, time). Samples of one rank and
// moment keep the order in which they were added: the last of a category counts. O(n) when sorted.
void SortTimeline(Timeline& timeline);

// The id under which `op_names` holds the name of `op`: the same with its micro-batch cleared.
// kNoOp stays kNoOp.
OpId NameKey(OpId op);

}  // namespace foretrain

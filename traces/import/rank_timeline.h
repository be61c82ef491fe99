// One rank's raw events as spans, step windows and memory samples. Leaves out several ranks and
// storage (import.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/op_ids.h"
#include "traces/import/op_table.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

struct RankOptions {
  int rank = 0;
  std::int64_t offset_ns = 0;  // added to the events' times
  std::string_view step_name{};
};

// What a rank's stream or thread became.
struct QueueUse {
  std::string process{}, thread{};
  Queue queue = Queue::kCompute;
  std::int64_t spans = 0;
};

struct RankTimeline {
  std::vector<Span> spans;
  std::vector<StepWindow> steps;
  std::vector<MemorySample> memory;
  std::vector<QueueUse> queues;
  std::vector<std::string> notes;
};

// With a device: its kernels and copies, each of its stream's or class's queue, and the host's own
// work on `host`, where a launch has the id of what it launched. Without: the host's ops are the
// compute, each for the time in which nothing within it ran.
//
// A span serves the step in which it was launched; one of no step has -1. Without ranges that count
// steps all is step 0. O(n log n).
RankTimeline TimelineOfRank(const RankEvents& events, const OpTable& table,
                            const RankOptions& options, OpIds& ids);

}  // namespace foretrain::trace_import

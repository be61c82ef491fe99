// Converts one rank's raw events to spans, step windows and memory samples. import.h combines ranks
// and stores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/op_ids.h"
#include "traces/import/op_table.h"
#include "traces/import/ranks/collectives.h"
#include "traces/import/raw_events.h"
#include "traces/kernels/kernel_table.h"

namespace foretrain::trace_import {

struct RankOptions {
  int rank = 0;
  std::int64_t offset_ns = 0;  // added to all times
  std::string_view step_name{};
};

// How a stream or thread was mapped.
struct QueueUse {
  std::string process{}, thread{};
  Queue queue = Queue::kCompute;
  std::int64_t spans = 0;
};

// A communication whose group the trace names.
struct GroupedSpan {
  std::size_t span = 0;     // index into the rank's spans
  std::uint32_t group = 0;  // index into RankEvents::groups
};

struct RankTimeline {
  std::vector<Span> spans;
  std::vector<StepWindow> steps;
  std::vector<MemorySample> memory;
  std::vector<QueueUse> queues;
  std::vector<CommunicationCall> calls;  // those that can be matched across ranks
  std::vector<GroupedSpan> grouped;
  KernelTable kernels;  // without capability
  std::vector<std::string> notes;
};

// If there is a device: its kernels and copies, on the queue of their stream or class, and host
// work on `host`; a launch has the id of the op it launched. Without a device the host's ops are
// the compute, each for the time in which nothing inside it ran.
//
// A span belongs to the step in which it was launched, or to -1. Without ranges that count steps,
// everything is step 0. O(n log n).
RankTimeline TimelineOfRank(const RankEvents& events, const OpTable& table,
                            const RankOptions& options, OpIds& ids);

}  // namespace foretrain::trace_import

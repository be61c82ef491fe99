// What the host was doing when: nested calls of each thread cut into the stretches in which one of
// them ran itself, and what its annotations say of whatever it launched. Leaves out the device.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/import/op_table.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// What surrounds an event. -1: unknown.
struct Surroundings {
  Pass pass = Pass::kNone;
  int layer = -1;
  int micro_batch = -1;
};

// A stretch in which `event` ran and nothing within it.
struct Stretch {
  std::uint32_t event = 0;  // into RankEvents::events
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct HostContext {
  std::vector<Surroundings> of;      // [event]; of the host's alone
  std::vector<Stretch> stretches;    // of kHostOp and kCall, by track and time
  std::vector<std::uint32_t> steps;  // ranges that count steps, by time
};

// A child that ends after its parent is cut to it. O(n log n).
//
//   step_name  ranges that begin so count steps; empty: those of the table
HostContext ContextOf(const RankEvents& events, const OpTable& table, std::string_view step_name);

}  // namespace foretrain::trace_import

// Host activity: splits each thread's nested calls into stretches in which one call itself ran, and
// finds what annotations say about the work it launched. Device events are in rank_timeline.h.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/import/op_table.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// Context of an event. -1: unknown.
struct Surroundings {
  Pass pass = Pass::kNone;
  int layer = -1;
  int micro_batch = -1;
  // Host event whose work the event is part of: the innermost one that multiplies, else the
  // innermost one with known work.
  std::int64_t op = -1;
};

// A stretch of time in which `event` ran and nothing inside it.
struct Stretch {
  std::uint32_t event = 0;  // into RankEvents::events
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct HostContext {
  std::vector<Surroundings> of;      // [event]; set for host events only
  std::vector<Stretch> stretches;    // of kHostOp and kCall events, by track and time
  std::vector<std::uint32_t> steps;  // ranges that count steps, by time
};

// Computes the context of all host events. A child that ends after its parent is cut to it. O(n log
// n).
//
//   step_name  prefix of the ranges that count steps; empty: those of the table
HostContext ContextOf(const RankEvents& events, const OpTable& table, std::string_view step_name);

}  // namespace foretrain::trace_import

// The chain of spans that a step waits for, from its last span back to its start. Leaves out
// drawing it.
#pragma once

#include <cstdint>
#include <vector>

#include "ui/view_model/compare_model.h"

namespace foretrain::ui {

// A stretch of the path: a span, or the part of it after the path came to it.
struct PathPart {
  std::uint32_t span = 0;  // index into Timeline::spans
  std::int64_t start_ns = 0;  // own time of the run
  std::int64_t end_ns = 0;
};

struct CriticalPath {
  Side side = Side::kMeasured;
  std::vector<PathPart> parts{};  // in order of time; no two overlap
  std::int64_t compute_ns = 0;
  std::int64_t communication_ns = 0;
  std::int64_t other_ns = 0;  // copies
  std::int64_t wait_ns = 0;   // between parts: nothing that the run recorded

  std::int64_t LengthNs() const { return compute_ns + communication_ns + other_ns + wait_ns; }
};

// Goes back from the last span of the chosen step of `side`: before a span comes the one of its
// rank that ended last before it began; before a communication, on the rank that arrived at it
// last, what that rank did until then. Host spans are passed over. Empty without spans.
// O(n log n) in the spans of the step.
CriticalPath CriticalPathOf(const CompareModel& model, Side side);

}  // namespace foretrain::ui

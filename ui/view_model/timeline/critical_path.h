// Finds the chain of spans that determines a step's length, from its last span back to its start.
#pragma once

#include <cstdint>
#include <vector>

#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {

// A part of the path: a span, or the rest of it after the path has left for another rank.
struct PathPart {
  std::uint32_t span = 0;     // index into Timeline::spans
  std::int64_t start_ns = 0;  // own time of the run
  std::int64_t end_ns = 0;
};

struct CriticalPath {
  Side side = Side::kMeasured;
  std::vector<PathPart> parts{};  // in order of time, without overlap
  std::int64_t compute_ns = 0;
  std::int64_t communication_ns = 0;
  std::int64_t other_ns = 0;  // copies
  std::int64_t wait_ns = 0;   // between parts: nothing recorded explains it

  std::int64_t LengthNs() const { return compute_ns + communication_ns + other_ns + wait_ns; }
};

// Walks back from the last span of the chosen step of `side`. The predecessor of a span is the one
// of its rank that ended last before it began. The predecessor of a communication is the work of
// the rank that arrived last. Host spans are skipped. Empty without spans. O(n log n) in the spans
// of the step.
CriticalPath CriticalPathOf(const CompareModel& model, Side side);

}  // namespace foretrain::ui

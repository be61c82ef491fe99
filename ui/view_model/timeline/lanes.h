// One lane per rank: the spans of forecast and measurement, row by row.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/compare/pairing.h"
#include "traces/span_sums.h"
#include "ui/view_model/runs/sides.h"
#include "ui/view_model/timeline/drift.h"
#include "ui/view_model/timeline/track.h"

namespace foretrain::ui {

// A span of one of the two runs.
struct SpanRef {
  Side side = Side::kMeasured;
  std::uint32_t span = 0;  // index into Timeline::spans

  bool operator==(const SpanRef&) const = default;
};

enum class LaneRows : std::uint8_t {
  kMerged,  // compute, and below it all communication and copies; no host
  kQueues,  // one row for each queue that either run uses
};

struct Row {
  std::string name{};  // "compute", "tp"
  bool compute = false;
  std::vector<Track> tracks{};           // more than one if spans overlap
  std::vector<Slot> slots{};             // of the compute queue
  std::vector<const TrackSums*> sums{};  // for a long run: sums of all spans of its queues
};

struct Lane {
  int rank = 0;
  std::string name{};                      // "rank 3"
  std::string detail{};                    // "stage 1"; empty without a pipeline
  std::array<std::vector<Row>, 2> rows{};  // by side: of equal size, or empty if the run is missing
  std::vector<const GpuCounter*> counters{};  // of the shown run (SidePair::Shown)
  std::vector<DriftPoint> drift{};
  std::int64_t left_out = 0;  // spans that overlap too many others to be drawn
};

// The rows of `rank` of a run, whose timeline must be sorted. `queues`: bit q is set for each queue
// with a row in kQueues. O(n log n) in the spans of the rank.
std::vector<Row> RowsOf(const RunView& run, int rank, LaneRows rows, std::uint32_t queues,
                        std::int64_t& left_out);

// Bit q is set for each queue on which `rank` has spans.
std::uint32_t QueuesOf(const RunView& run, int rank);

// By how much each span of `track` took longer than its counterpart. An op with several spans
// splits its difference by length. Spans of other steps have no counterpart.
std::vector<float> ErrorsOf(const Track& track, std::span<const PairedOp> pairs, int rank,
                            std::int32_t step);

}  // namespace foretrain::ui

// One lane a rank: the forecast's spans and the measured ones, row by row. Leaves out pixels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/compare/pairing.h"
#include "traces/span_sums.h"
#include "traces/timeline.h"
#include "ui/view_model/drift.h"
#include "ui/view_model/sides.h"
#include "ui/view_model/track.h"

namespace foretrain::ui {

// A span of one of the two runs.
struct SpanRef {
  Side side = Side::kMeasured;
  std::uint32_t span = 0;  // index into Timeline::spans

  bool operator==(const SpanRef&) const = default;
};

enum class LaneRows : std::uint8_t {
  kMerged,  // compute; all communication and copies under it; without the host
  kQueues,  // one row for each queue that either run uses
};

struct Row {
  std::string name{};  // "compute", "tp"
  bool compute = false;
  std::vector<Track> tracks{};  // more than one where spans overlap
  std::vector<Slot> slots{};    // of the compute queue
  std::vector<const TrackSums*> sums{};  // of a long run: of all spans of its queues
};

struct Lane {
  int rank = 0;
  std::string name{};                      // "rank 3"
  std::string detail{};                    // "stage 1", or what it shares its forecast with
  std::array<std::vector<Row>, 2> rows{};  // [side]: both as long, or empty where a run is missing
  std::vector<DriftPoint> drift{};
  std::int64_t left_out = 0;  // spans that overlap more others than are drawn
};

// The rows of `rank` of a run, whose timeline is sorted. `queues`: bit q set for each queue that gets a row in
// kQueues. O(n log n) in the spans of the rank.
std::vector<Row> RowsOf(const RunView& run, int rank, LaneRows rows, std::uint32_t queues,
                        std::int64_t& left_out);

// Bit q set for each queue on which `rank` has spans.
std::uint32_t QueuesOf(const RunView& run, int rank);

// By how much each span of `track` took longer than its twin; an op of several spans spreads its
// difference over them by length. Spans of other steps, and those on the host, have no twin.
std::vector<float> ErrorsOf(const Track& track, std::span<const PairedOp> pairs, int rank,
                            std::int32_t step);

}  // namespace foretrain::ui

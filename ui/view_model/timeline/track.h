// Spans in sequence, and their picture at any zoom: wide spans one by one, the rest as class shares
// per column. Leaves out position and colours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "traces/timeline.h"
#include "ui/view_model/timeline/hue.h"

namespace foretrain::ui {

// A range of a timeline's own time, divided into columns of one pixel.
struct TrackWindow {
  double start_ns = 0.0;
  double end_ns = 1.0;  // > start_ns
  int columns = 1;      // > 0

  double ColumnsPerNs() const { return columns / (end_ns - start_ns); }
};

// A span wide enough to be drawn, in columns, clipped to the window.
struct SpanRect {
  double x0 = 0.0;
  double x1 = 0.0;
  std::uint32_t span = 0;  // index into Timeline::spans
};

// Error of the paired ops in one column.
struct ErrorColumn {
  float error_ns = 0.0F;     // measured minus predicted, for the part in the column
  float paired_ns = 0.0F;    // measured time of ops with a counterpart
  float unpaired_ns = 0.0F;  // measured time of ops without one

  // Difference divided by the longer of the two times, in [-1, 1].
  float Relative() const;
};

struct TrackPicture {
  std::vector<SpanRect> rects{};  // in order of time
  // One per column of the window: shares of folded spans, and of the columns that a wide span fills
  // in part. A column's shares sum to at most 1.
  std::vector<HueShares> columns{};
  std::vector<ErrorColumn> errors{};  // one per column; empty if no errors are set
  std::size_t visited = 0;            // spans and blocks visited: the cost
};

// In Track::SetErrors: the span has no counterpart.
inline constexpr float kNoCounterpart = std::numeric_limits<float>::max();

// Consecutive spans of one pass of one micro-batch, without a long wait among them.
struct Slot {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t first = 0;  // position in the track
  std::uint32_t last = 0;   // inclusive
  std::uint32_t instructions = 0;
  OpId op = kNoOp;  // op of the first span
};

class Track {
 public:
  // `order`: indices into `spans`, sorted by time, without overlap. `spans` must outlive this
  // object and stay unchanged. O(n).
  Track(const std::vector<Span>& spans, std::span<const std::uint32_t> order);

  std::size_t size() const { return pieces_.size(); }
  std::uint32_t IndexAt(std::size_t position) const { return pieces_[position].index; }
  const Span& SpanAt(std::size_t position) const { return spans_[IndexAt(position)]; }

  // Sets by how much each span, in order, took longer than forecast, or kNoCounterpart. O(n).
  void SetErrors(std::span<const float> errors_ns);

  // Draws spans of at least `min_columns` one by one and folds the others. At most window.columns /
  // min_columns + 2 rectangles. O(log n + columns * 64 + rectangles).
  TrackPicture Fold(const TrackWindow& window, double min_columns) const;

  // The span that covers `time_ns`, otherwise one whose nearer end is at most `slack_ns` away;
  // nullopt if there is none. O(log n).
  std::optional<std::uint32_t> Find(double time_ns, double slack_ns = 0.0) const;

  // Position of the first span that ends after `time_ns`; size() if there is none. O(log n).
  std::size_t FirstEndingAfter(double time_ns) const;

  // Groups consecutive spans into slots. O(n).
  std::vector<Slot> Slots() const;

 private:
  static constexpr std::size_t kBlock = 32;

  // The data of a span that a picture needs, stored contiguously: the spans themselves lie far
  // apart.
  struct Piece {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::uint32_t index = 0;  // index into spans_
    float error_ns = 0.0F;    // or kNoCounterpart
    Hue hue{};
  };

  // Sums over kBlock spans, so that a column with many spans costs few visits.
  struct Block {
    std::int64_t longest_ns = 0;
    HueShares busy_ns{};
    ErrorColumn errors{};
  };

  // Calls on_block(block, column) for blocks inside one column without a span of `whole_ns` or
  // more. Calls on_piece(piece, x0, x1) for all other spans in the window. Returns the number of
  // calls.
  template <class OnBlock, class OnPiece>
  std::size_t Walk(const TrackWindow& window, double whole_ns, OnBlock on_block,
                   OnPiece on_piece) const;

  static ErrorColumn ErrorOf(const Piece& piece);

  const std::vector<Span>& spans_;
  std::vector<Piece> pieces_;
  std::vector<Block> blocks_;
  bool has_errors_ = false;
};

// Distributes `indices` (into `spans`, sorted by start) over as few tracks as possible such that no
// two spans of a track overlap. Spans that would need more than kMaxTracks are left out and
// counted. O(n * tracks).
inline constexpr std::size_t kMaxTracks = 16;
struct PackedTracks {
  std::vector<Track> tracks;
  std::int64_t left_out = 0;
};
PackedTracks PackTracks(const std::vector<Span>& spans, std::span<const std::uint32_t> indices);

}  // namespace foretrain::ui

// Spans that follow one another, and their picture at any zoom: those wide enough one by one, the
// rest as columns of class shares. Leaves out where a track lies on the screen and its colours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "traces/timeline.h"
#include "ui/view_model/hue.h"

namespace foretrain::ui {

// A stretch of a timeline's own time, cut into columns of one pixel.
struct TrackWindow {
  double start_ns = 0.0;
  double end_ns = 1.0;  // > start_ns
  int columns = 1;      // > 0

  double ColumnsPerNs() const { return columns / (end_ns - start_ns); }
};

// A span wide enough to be seen, in columns, cut to the window.
struct SpanRect {
  double x0 = 0.0;
  double x1 = 0.0;
  std::uint32_t span = 0;  // index into Timeline::spans
};

// What the paired ops of one column were off by.
struct ErrorColumn {
  float error_ns = 0.0F;     // measured less predicted, of the part that lies in the column
  float paired_ns = 0.0F;    // measured time of ops with a twin
  float unpaired_ns = 0.0F;  // and of those without

  // In [-1, 1]: the difference over the longer of the two times.
  float Relative() const;
};

struct TrackPicture {
  std::vector<SpanRect> rects{};  // in order of time
  // window.columns of them: shares of folded spans and of the columns a wide one fills in part. A
  // column's shares sum to at most 1.
  std::vector<HueShares> columns{};
  std::vector<ErrorColumn> errors{};  // as many; empty where errors are not set
  std::size_t visited = 0;            // spans and blocks looked at: the cost
};

// In Track::SetErrors: the span has no twin.
inline constexpr float kNoTwin = std::numeric_limits<float>::max();

// Consecutive spans of one pass of one micro-batch: what a schedule calls a slot.
struct Slot {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t first = 0;  // positions in the track
  std::uint32_t last = 0;   // inclusive
  std::uint32_t instructions = 0;
  OpId op = kNoOp;  // of the first span
};

class Track {
 public:
  // `order`: indices into `spans`, sorted by time, no two of which overlap. `spans` must outlive
  // this and stay as it is. O(n).
  Track(const std::vector<Span>& spans, std::span<const std::uint32_t> order);

  std::size_t size() const { return pieces_.size(); }
  std::uint32_t IndexAt(std::size_t position) const { return pieces_[position].index; }
  const Span& SpanAt(std::size_t position) const { return spans_[IndexAt(position)]; }

  // By how much each span, in order, took longer than forecast, or kNoTwin. O(n).
  void SetErrors(std::span<const float> errors_ns);

  // Spans of at least `least_columns` one by one, the others folded. At most
  // window.columns / least_columns + 2 rectangles. O(log n + columns * 64 + rectangles).
  TrackPicture Fold(const TrackWindow& window, double least_columns) const;

  // The span that covers `time_ns`, else the one whose nearer end is at most `slack_ns` away. O(log
  // n).
  std::optional<std::uint32_t> Find(double time_ns, double slack_ns = 0.0) const;

  // The first position whose span ends after `time_ns`; size() where none does. O(log n).
  std::size_t FirstEndingAfter(double time_ns) const;

  // O(n).
  std::vector<Slot> Slots() const;

 private:
  static constexpr std::size_t kBlock = 32;

  // What a picture needs of a span, side by side: spans themselves lie far apart.
  struct Piece {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::uint32_t index = 0;  // into spans_
    float error_ns = 0.0F;    // or kNoTwin
    Hue hue{};
  };

  // Sums over kBlock spans, so that a column with many spans costs few visits.
  struct Block {
    std::int64_t longest_ns = 0;
    HueShares busy_ns{};
    ErrorColumn errors{};
  };

  // Calls on_block(block, column) for blocks inside one column without a span of `whole_ns` or
  // more, on_piece(piece, x0, x1) for other spans in the window. Returns the number of calls.
  template <class OnBlock, class OnPiece>
  std::size_t Walk(const TrackWindow& window, double whole_ns, OnBlock on_block,
                   OnPiece on_piece) const;

  static ErrorColumn ErrorOf(const Piece& piece);

  const std::vector<Span>& spans_;
  std::vector<Piece> pieces_;
  std::vector<Block> blocks_;
  bool has_errors_ = false;
};

// `indices` (into `spans`, sorted by start) spread over as few tracks as it takes that none
// overlap, the lowest free one first. Spans for which kMostTracks do not suffice are left out and
// counted. O(n * tracks).
inline constexpr std::size_t kMostTracks = 16;
struct PackedTracks {
  std::vector<Track> tracks;
  std::int64_t left_out = 0;
};
PackedTracks PackTracks(const std::vector<Span>& spans, std::span<const std::uint32_t> indices);

}  // namespace foretrain::ui

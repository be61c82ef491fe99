#include "ui/view_model/timeline/track.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/result.h"
#include "traces/unknown_coordinates.h"

namespace foretrain::ui {
namespace {

constexpr std::int64_t kLongWait = 4;  // a wait of a quarter of a pass's busy time divides its slot

// Calls `add(column, part)` for each column that [x0, x1) overlaps, with the overlapping width.
template <class Add>
void Spread(double x0, double x1, int columns, Add add) {
  const double from = std::max(x0, 0.0);
  const double to = std::min(x1, static_cast<double>(columns));
  if (!(to > from)) return;
  const int first = static_cast<int>(from);
  const int last = std::min(static_cast<int>(to), columns - 1);
  if (first == last) return add(static_cast<std::size_t>(first), to - from);
  for (int c = first; c <= last; ++c) {
    const double part = std::min(to, c + 1.0) - std::max(from, static_cast<double>(c));
    if (part > 0.0) add(static_cast<std::size_t>(c), part);
  }
}

// Two consecutive spans with equal keys belong to one slot.
auto SlotKey(const Span& span) {
  if (!IsValidId(span.op)) return std::tuple(span.step, -1, 0, -1);
  const InstructionKey key = UnpackId(span.op);
  const bool update =
      key.kind == InstructionKind::kOptimizerStep || key.kind == InstructionKind::kNorm;
  const int kind = static_cast<int>(update ? InstructionKind::kOptimizerStep : key.kind);
  return std::tuple(span.step, kind, static_cast<int>(update ? Pass::kUpdate : key.pass),
                    IsMicroBatchKnown(key) ? key.micro_batch : -1);
}

}  // namespace

// Dividing by the longer time keeps the value within [-1, 1], also for ops that were forecast to
// take almost nothing.
float ErrorColumn::Relative() const {
  const float predicted = paired_ns - error_ns;
  const float longer = std::max(paired_ns, predicted);
  return longer > 0.0F ? std::clamp(error_ns / longer, -1.0F, 1.0F) : 0.0F;
}

// Copies the data that drawing needs and sums blocks of spans, in one pass.
Track::Track(const std::vector<Span>& spans, std::span<const std::uint32_t> order)
    : spans_(spans), blocks_((order.size() + kBlock - 1) / kBlock) {
  pieces_.reserve(order.size());
  for (const std::uint32_t index : order) {
    const Span& span = spans[index];
    Block& block = blocks_[pieces_.size() / kBlock];
    pieces_.push_back(
        {.start_ns = span.start_ns, .end_ns = span.end_ns, .index = index, .hue = HueOf(span)});
    const std::int64_t length = span.end_ns - span.start_ns;
    block.longest_ns = std::max(block.longest_ns, length);
    block.busy_ns[static_cast<std::size_t>(pieces_.back().hue)] += static_cast<float>(length);
  }
}

// Also sums the errors of each block, so that Fold can skip whole blocks.
void Track::SetErrors(std::span<const float> errors_ns) {
  FT_CHECK(errors_ns.size() == pieces_.size());
  has_errors_ = true;
  for (Block& block : blocks_) block.errors = {};
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].error_ns = errors_ns[i];
    const ErrorColumn error = ErrorOf(pieces_[i]);
    ErrorColumn& sum = blocks_[i / kBlock].errors;
    sum.error_ns += error.error_ns;
    sum.paired_ns += error.paired_ns;
    sum.unpaired_ns += error.unpaired_ns;
  }
}

ErrorColumn Track::ErrorOf(const Piece& piece) {
  const auto length = static_cast<float>(piece.end_ns - piece.start_ns);
  if (piece.error_ns == kNoCounterpart) return {.unpaired_ns = length};
  return {.error_ns = piece.error_ns, .paired_ns = length};
}

// Binary search by end: spans do not overlap, so ends are sorted like starts.
std::size_t Track::FirstEndingAfter(double time_ns) const {
  const auto at = std::partition_point(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    return static_cast<double>(piece.end_ns) <= time_ns;
  });
  return static_cast<std::size_t>(at - pieces_.begin());
}

// Skips whole blocks that lie inside one column and have no wide span. So a column costs at most a
// few blocks and two partial ones, however many spans it holds.
template <class OnBlock, class OnPiece>
std::size_t Track::Walk(const TrackWindow& window, double whole_ns, OnBlock on_block,
                        OnPiece on_piece) const {
  const double scale = window.ColumnsPerNs();
  const auto to_x = [&](std::int64_t time_ns) {
    return (static_cast<double>(time_ns) - window.start_ns) * scale;
  };
  std::size_t visits = 0;
  for (std::size_t i = FirstEndingAfter(window.start_ns); i < size(); ++visits) {
    const Piece& piece = pieces_[i];
    if (static_cast<double>(piece.start_ns) >= window.end_ns) break;
    const double x0 = to_x(piece.start_ns);
    // A block is skipped only from its first span on, and only if it begins inside the window.
    if (i % kBlock == 0 && x0 >= 0.0) {
      const Block& block = blocks_[i / kBlock];
      const std::size_t end = std::min(i + kBlock, size());
      const double x1 = to_x(pieces_[end - 1].end_ns);
      const bool in_one_column = std::floor(x0) == std::floor(x1) && x1 < window.columns;
      if (in_one_column && static_cast<double>(block.longest_ns) < whole_ns) {
        on_block(block, static_cast<std::size_t>(x0));
        i = end;
        continue;
      }
    }
    on_piece(piece, x0, to_x(piece.end_ns));
    ++i;
  }
  return visits;
}

// A wide span becomes a rectangle, all others add to class shares. The partial columns at a
// rectangle's ends get shares too, since rectangles are drawn on whole columns.
TrackPicture Track::Fold(const TrackWindow& window, double min_columns) const {
  TrackPicture picture;
  const double scale = window.ColumnsPerNs();
  const auto columns = static_cast<std::size_t>(window.columns);
  picture.columns.resize(columns);
  picture.errors.resize(has_errors_ ? columns : 0);
  const auto add_error = [&picture](std::size_t column, const ErrorColumn& error, float share) {
    picture.errors[column].error_ns += share * error.error_ns;
    picture.errors[column].paired_ns += share * error.paired_ns;
    picture.errors[column].unpaired_ns += share * error.unpaired_ns;
  };
  const auto on_block = [&](const Block& block, std::size_t column) {
    for (std::size_t hue = 0; hue < kHueCount; ++hue) {
      picture.columns[column][hue] += static_cast<float>(block.busy_ns[hue] * scale);
    }
    if (has_errors_) add_error(column, block.errors, 1.0F);
  };
  const auto spread = [&](std::size_t hue, double x0, double x1) {
    Spread(x0, x1, window.columns, [&](std::size_t column, double part) {
      picture.columns[column][hue] += static_cast<float>(part);
    });
  };
  const auto on_piece = [&](const Piece& piece, double x0, double x1) {
    if (has_errors_) {
      const ErrorColumn error = ErrorOf(piece);
      Spread(x0, x1, window.columns, [&](std::size_t column, double part) {
        add_error(column, error, static_cast<float>(part / (x1 - x0)));
      });
    }
    const auto hue = static_cast<std::size_t>(piece.hue);
    if (x1 - x0 < min_columns) return spread(hue, x0, x1);
    picture.rects.push_back(
        {std::max(x0, 0.0), std::min(x1, static_cast<double>(window.columns)), piece.index});
    // A rectangle is drawn on whole columns; those that it fills in part are shared.
    spread(hue, x0, std::min(x1, std::ceil(x0)));
    spread(hue, std::max(x0, std::floor(x1)), x1);
  };
  picture.visited = Walk(window, min_columns / scale, on_block, on_piece);
  return picture;
}

// A span that covers the time wins; otherwise the nearer of the two neighbours within `slack_ns`.
std::optional<std::uint32_t> Track::Find(double time_ns, double slack_ns) const {
  const std::size_t i = FirstEndingAfter(time_ns);
  std::optional<std::uint32_t> nearest;
  double distance = slack_ns;
  if (i < size()) {
    const double after = static_cast<double>(SpanAt(i).start_ns) - time_ns;
    if (after <= 0.0) return IndexAt(i);
    if (after <= distance) {
      nearest = IndexAt(i);
      distance = after;
    }
  }
  if (i > 0) {
    const double before = time_ns - static_cast<double>(SpanAt(i - 1).end_ns);
    if (before < distance) nearest = IndexAt(i - 1);
  }
  return nearest;
}

// A new slot begins wherever step, kind, pass or micro-batch changes, and after a wait that is long
// beside what the pass computes. Otherwise a wait would look like a part of the pass.
std::vector<Slot> Track::Slots() const {
  std::vector<Slot> slots;
  std::size_t end = 0;
  for (std::size_t first = 0; first < size(); first = end) {
    std::int64_t busy_ns = 0;
    for (end = first; end < size() && SlotKey(SpanAt(end)) == SlotKey(SpanAt(first)); ++end) {
      busy_ns += SpanAt(end).end_ns - SpanAt(end).start_ns;
    }
    for (std::size_t i = first; i < end; ++i) {
      const Span& span = SpanAt(i);
      const auto position = static_cast<std::uint32_t>(i);
      const bool is_new =
          i == first || kLongWait * (span.start_ns - SpanAt(i - 1).end_ns) > busy_ns;
      if (is_new) slots.push_back({span.start_ns, span.end_ns, position, position, 1, span.op});
      Slot& slot = slots.back();
      if (!is_new && InstructionOf(SpanAt(i - 1).op) != InstructionOf(span.op)) ++slot.instructions;
      slot.end_ns = span.end_ns;
      slot.last = position;
    }
  }
  return slots;
}

// First fit: each span goes to the lowest track that is free at its start. For intervals sorted by
// start this uses as few tracks as possible.
PackedTracks PackTracks(const std::vector<Span>& spans, std::span<const std::uint32_t> indices) {
  std::vector<std::vector<std::uint32_t>> orders;
  std::vector<std::int64_t> ends;
  PackedTracks packed;
  for (const std::uint32_t index : indices) {
    std::size_t track = 0;
    while (track < ends.size() && ends[track] > spans[index].start_ns) ++track;
    if (track == kMaxTracks) {
      ++packed.left_out;
      continue;
    }
    if (track == ends.size()) {
      ends.emplace_back();
      orders.emplace_back();
    }
    ends[track] = spans[index].end_ns;
    orders[track].push_back(index);
  }
  packed.tracks.reserve(orders.size());
  for (const std::vector<std::uint32_t>& order : orders) {
    packed.tracks.emplace_back(spans, order);
  }
  return packed;
}

}  // namespace foretrain::ui

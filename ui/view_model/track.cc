#include "ui/view_model/track.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "traces/unknown_coordinates.h"

namespace foretrain::ui {
namespace {

// Adds the part of [x0, x1) that lies in each column to what `add(column, part)` keeps.
template <class Add>
void Spread(double x0, double x1, int columns, Add add) {
  const double from = std::max(x0, 0.0);
  const double to = std::min(x1, static_cast<double>(columns));
  if (!(to > from)) return;
  const int first = static_cast<int>(from);
  const int last = std::min(static_cast<int>(to), columns - 1);
  for (int c = first; c <= last; ++c) {
    const double part = std::min(to, c + 1.0) - std::max(from, static_cast<double>(c));
    if (part > 0.0) add(static_cast<std::size_t>(c), part);
  }
}

// What makes two spans one slot.
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

float ErrorColumn::Relative() const {
  const float predicted = paired_ns - error_ns;
  const float longer = std::max(paired_ns, predicted);
  return longer > 0.0F ? std::clamp(error_ns / longer, -1.0F, 1.0F) : 0.0F;
}

Track::Track(const std::vector<Span>& spans, std::vector<std::uint32_t> order)
    : spans_(spans), order_(std::move(order)), blocks_((order_.size() + kBlock - 1) / kBlock) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Span& span = SpanAt(i);
    Block& block = blocks_[i / kBlock];
    const std::int64_t length = span.end_ns - span.start_ns;
    block.longest_ns = std::max(block.longest_ns, length);
    block.busy_ns[static_cast<std::size_t>(HueOf(span))] += static_cast<float>(length);
  }
}

void Track::SetErrors(std::vector<float> errors_ns) {
  FT_CHECK(errors_ns.size() == order_.size());
  errors_ns_ = std::move(errors_ns);
  for (Block& block : blocks_) block.errors = {};
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const ErrorColumn error = ErrorOf(i);
    ErrorColumn& sum = blocks_[i / kBlock].errors;
    sum.error_ns += error.error_ns;
    sum.paired_ns += error.paired_ns;
    sum.unpaired_ns += error.unpaired_ns;
  }
}

ErrorColumn Track::ErrorOf(std::size_t position) const {
  const Span& span = SpanAt(position);
  const auto length = static_cast<float>(span.end_ns - span.start_ns);
  if (errors_ns_[position] == kNoTwin) return {.unpaired_ns = length};
  return {.error_ns = errors_ns_[position], .paired_ns = length};
}

std::size_t Track::FirstEndingAfter(double time_ns) const {
  const auto at = std::partition_point(order_.begin(), order_.end(), [&](std::uint32_t index) {
    return static_cast<double>(spans_[index].end_ns) <= time_ns;
  });
  return static_cast<std::size_t>(at - order_.begin());
}

template <class OnBlock, class OnSpan>
std::size_t Track::Walk(const TrackWindow& window, double whole_ns, OnBlock on_block,
                        OnSpan on_span) const {
  const double scale = window.ColumnsPerNs();
  const auto to_x = [&](std::int64_t time_ns) {
    return (static_cast<double>(time_ns) - window.start_ns) * scale;
  };
  std::size_t visits = 0;
  for (std::size_t i = FirstEndingAfter(window.start_ns); i < order_.size(); ++visits) {
    const Span& span = SpanAt(i);
    if (static_cast<double>(span.start_ns) >= window.end_ns) break;
    const double x0 = to_x(span.start_ns);
    if (i % kBlock == 0 && x0 >= 0.0) {
      const Block& block = blocks_[i / kBlock];
      const std::size_t end = std::min(i + kBlock, order_.size());
      const double x1 = to_x(SpanAt(end - 1).end_ns);
      const bool in_one_column = std::floor(x0) == std::floor(x1) && x1 < window.columns;
      if (in_one_column && static_cast<double>(block.longest_ns) < whole_ns) {
        on_block(block, static_cast<std::size_t>(x0));
        i = end;
        continue;
      }
    }
    on_span(i, x0, to_x(span.end_ns));
    ++i;
  }
  return visits;
}

TrackPicture Track::Fold(const TrackWindow& window, double least_columns) const {
  TrackPicture picture;
  const double scale = window.ColumnsPerNs();
  picture.columns.resize(static_cast<std::size_t>(window.columns));
  const auto on_block = [&](const Block& block, std::size_t column) {
    for (std::size_t hue = 0; hue < kHueCount; ++hue) {
      picture.columns[column][hue] += static_cast<float>(block.busy_ns[hue] * scale);
    }
  };
  const auto spread = [&](std::size_t hue, double x0, double x1) {
    Spread(x0, x1, window.columns, [&](std::size_t column, double part) {
      picture.columns[column][hue] += static_cast<float>(part);
    });
  };
  const auto on_span = [&](std::size_t i, double x0, double x1) {
    const auto hue = static_cast<std::size_t>(HueOf(SpanAt(i)));
    if (x1 - x0 < least_columns) return spread(hue, x0, x1);
    picture.rects.push_back(
        {std::max(x0, 0.0), std::min(x1, static_cast<double>(window.columns)), order_[i]});
    // A rectangle is drawn on whole columns: those that it fills in part are shared.
    spread(hue, x0, std::min(x1, std::ceil(x0)));
    spread(hue, std::max(x0, std::floor(x1)), x1);
  };
  picture.visited = Walk(window, least_columns / scale, on_block, on_span);
  return picture;
}

std::vector<ErrorColumn> Track::FoldErrors(const TrackWindow& window) const {
  if (errors_ns_.empty()) return {};
  std::vector<ErrorColumn> columns(static_cast<std::size_t>(window.columns));
  const auto add = [&columns](std::size_t column, const ErrorColumn& error, float share) {
    columns[column].error_ns += share * error.error_ns;
    columns[column].paired_ns += share * error.paired_ns;
    columns[column].unpaired_ns += share * error.unpaired_ns;
  };
  Walk(
      window, std::numeric_limits<double>::infinity(),
      [&](const Block& block, std::size_t column) { add(column, block.errors, 1.0F); },
      [&](std::size_t i, double x0, double x1) {
        const ErrorColumn error = ErrorOf(i);
        Spread(x0, x1, window.columns, [&](std::size_t column, double part) {
          add(column, error, static_cast<float>(part / (x1 - x0)));
        });
      });
  return columns;
}

std::optional<std::uint32_t> Track::Find(double time_ns, double slack_ns) const {
  const std::size_t i = FirstEndingAfter(time_ns);
  std::optional<std::uint32_t> nearest;
  double distance = slack_ns;
  if (i < size()) {
    const double after = static_cast<double>(SpanAt(i).start_ns) - time_ns;
    if (after <= 0.0) return order_[i];
    if (after <= distance) {
      nearest = order_[i];
      distance = after;
    }
  }
  if (i > 0) {
    const double before = time_ns - static_cast<double>(SpanAt(i - 1).end_ns);
    if (before < distance) nearest = order_[i - 1];
  }
  return nearest;
}

std::vector<Slot> Track::Slots() const {
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < size(); ++i) {
    const Span& span = SpanAt(i);
    const auto position = static_cast<std::uint32_t>(i);
    const bool is_new = i == 0 || SlotKey(SpanAt(i - 1)) != SlotKey(span);
    if (is_new) slots.push_back({span.start_ns, span.end_ns, position, position, 1, span.op});
    Slot& slot = slots.back();
    if (!is_new && InstructionOf(SpanAt(i - 1).op) != InstructionOf(span.op)) ++slot.instructions;
    slot.end_ns = span.end_ns;
    slot.last = position;
  }
  return slots;
}

PackedTracks PackTracks(const std::vector<Span>& spans, std::span<const std::uint32_t> indices) {
  std::vector<std::vector<std::uint32_t>> orders;
  std::vector<std::int64_t> ends;
  PackedTracks packed;
  for (const std::uint32_t index : indices) {
    std::size_t track = 0;
    while (track < ends.size() && ends[track] > spans[index].start_ns) ++track;
    if (track == kMostTracks) {
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
  for (std::vector<std::uint32_t>& order : orders) {
    packed.tracks.emplace_back(spans, std::move(order));
  }
  return packed;
}

}  // namespace foretrain::ui

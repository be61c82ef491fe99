#include "ui/view/lanes/gutter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ui/view_model/panels/counter_rows.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// A pin: filled if the lane is pinned, an outline while the mouse is over the lane's name.
void DrawPin(const Frame& frame, const LaneBox& box) {
  if (box.pin.IsEmpty() || frame.model.lanes.size() < 2) return;
  Canvas& canvas = frame.canvas;
  canvas.record.widgets.push_back({"pin " + frame.model.lanes[box.lane].name, box.pin});
  const bool over = frame.state.gutter_lane == box.lane;
  if (!box.row.pinned && !over) return;
  const Box& at = box.pin;
  const float x = std::round((at.x0 + at.x1) / 2), y = at.y0 + canvas.Px(3);
  const Box head{x - canvas.Px(3), y, x + canvas.Px(3), y + canvas.Px(5)};
  const Colour colour = box.row.pinned ? canvas.theme.text : canvas.theme.muted;
  if (box.row.pinned) {
    canvas.Fill(head, colour, canvas.Px(1));
  } else {
    canvas.Outline(head, colour, 1.0F, canvas.Px(1));
  }
  canvas.Fill({x - canvas.Px(4), head.y1, x + canvas.Px(4), head.y1 + 1.0F}, colour);
  canvas.Fill({x, head.y1, x + 1.0F, head.y1 + canvas.Px(5)}, colour);
}

// Number of ranks that the lane stands for, or of its expanded group, with a triangle that points
// down if the group is expanded. Returns false if there is nothing to say, or no room.
bool DrawGroup(const Frame& frame, const LaneBox& box, Point at, float bottom) {
  const bool opens = !box.group.IsEmpty();
  if ((!opens && box.row.stands_for < 2) || at.y + frame.canvas.Px(12) > bottom) return false;
  Canvas& canvas = frame.canvas;
  const Colour colour =
      frame.state.gutter_lane == box.lane ? canvas.theme.text : canvas.theme.muted;
  const std::string text = box.row.heads ? "close group" : RanksText(box.row.stands_for);
  const bool queues = frame.model.options.rows == LaneRows::kQueues;  // whose names take the room
  if (queues && !opens) return false;
  if (opens) {
    const float x = at.x, y = at.y + canvas.Px(3), size = canvas.Px(7);
    if (box.row.closed) {
      canvas.Quad({x, y}, {x + size, y + size / 2}, {x + size, y + size / 2}, {x, y + size},
                  colour);
    } else {
      canvas.Quad({x, y}, {x + size, y}, {x + size / 2, y + size}, {x + size / 2, y + size},
                  colour);
    }
    at.x += canvas.Px(11);
    canvas.record.widgets.push_back({text + " of " + frame.model.lanes[box.lane].name, box.group});
  }
  if (!queues) canvas.Text(canvas.fonts.small, at, colour, text);
  return true;
}

void DrawNames(const Frame& frame, const LaneBox& box) {
  Canvas& canvas = frame.canvas;
  const Lane& lane = frame.model.lanes[box.lane];
  const Theme& theme = canvas.theme;
  const bool chosen = box.lane == frame.state.memory_lane && !frame.layout.memory.IsEmpty();
  const float left = box.box.x0;
  const float x = left + canvas.Px(14);
  if (chosen && frame.model.lanes.size() > 1) {
    canvas.Fill({left + canvas.Px(4), box.box.y0 + canvas.Px(8), left + canvas.Px(7),
                 box.box.y1 - canvas.Px(8)},
                theme.faint);
  }
  // If lanes are lower than their names, only every n-th name is drawn. Counters have names of
  // their own.
  const float bottom = box.counters.empty() ? box.box.y1 : box.counters.front().box.y0;
  const float height = bottom - box.box.y0;
  if (height < canvas.Px(22)) {
    const auto every = static_cast<std::size_t>(std::ceil(canvas.Px(16) / std::max(1.0F, height)));
    if (box.lane % std::max<std::size_t>(1, every) != 0) return;
    canvas.Text(canvas.fonts.small, {x, box.box.y0 - canvas.Px(2)}, theme.muted, lane.name);
    return;
  }
  // Name, detail and final drift, from top to bottom, as far as they fit.
  float y = box.box.y0 + canvas.Px(6);
  canvas.Text(canvas.fonts.bold, {x, y}, theme.text, lane.name);
  DrawPin(frame, box);
  y += canvas.Px(19);
  if (DrawGroup(frame, box, {x, y}, bottom)) y += canvas.Px(17);
  if (!lane.detail.empty() && y + canvas.Px(12) < bottom) {
    canvas.Text(canvas.fonts.small, {x, y}, theme.muted, lane.detail);
    y += canvas.Px(17);
  }
  // Names of queues take the place beside it.
  if (frame.model.options.rows == LaneRows::kQueues) return;
  if (lane.drift.empty() || y + canvas.Px(12) > bottom) return;
  const auto drift = static_cast<double>(lane.drift.back().drift_ns);
  const Colour colour = drift > 0 ? theme.worse : drift < 0 ? theme.better : theme.muted;
  canvas.Text(canvas.fonts.mono_small, {x, y}, colour, SignedTime(drift));
}

// Names of queue rows in the gutter, once per pair of strips.
void DrawRowNames(const Frame& frame, const LaneBox& box) {
  if (frame.model.options.rows != LaneRows::kQueues) return;
  Canvas& canvas = frame.canvas;
  for (const StripBox& strip : box.strips) {
    const bool named = strip.side == Side::kMeasured || !frame.model.HasBoth();
    if (!named) continue;
    const Row& row = frame.model.lanes[box.lane].rows[Index(strip.side)][strip.row];
    const Box name{box.box.x0, strip.box.y0, frame.layout.plot_x0 - canvas.Px(6), strip.box.y1};
    canvas.TextIn(canvas.fonts.mono_small, name, Align::kRight, canvas.theme.muted, row.name);
  }
}

// Names of counters in the gutter, and the value at the upper edge of each graph inside it.
void DrawCounterNames(const Frame& frame, const LaneBox& box) {
  Canvas& canvas = frame.canvas;
  for (const CounterBox& at : box.counters) {
    const GpuCounter& counter = *frame.model.lanes[box.lane].counters[at.counter];
    const Box name{box.box.x0, at.box.y0, frame.layout.plot_x0 - canvas.Px(6), at.box.y1};
    canvas.TextIn(canvas.fonts.small, name, Align::kRight, canvas.theme.muted,
                  counter.series.title);
    const Box top{at.box.x0 + canvas.Px(4), at.box.y0, at.box.x1, at.box.y1};
    canvas.TextIn(canvas.fonts.mono_small, top, Align::kLeft, canvas.theme.text,
                  "to " + FormatReading(counter.series.unit, TopOf(counter)));
  }
}

}  // namespace

void DrawGutter(const Frame& frame, const LaneBox& box) {
  DrawNames(frame, box);
  DrawRowNames(frame, box);
  DrawCounterNames(frame, box);
}

void DrawLaneDrop(const Frame& frame, float mouse_y) {
  const Layout& layout = frame.layout;
  if (frame.state.drag != Drag::kLane || layout.lane_height <= 0.0F) return;
  const float place = std::round((mouse_y - layout.lanes.y0 + layout.scroll) / layout.lane_height);
  const float y = std::clamp(layout.lanes.y0 - layout.scroll + place * layout.lane_height,
                             layout.lanes.y0, layout.lanes.y1);
  frame.canvas.Fill({layout.window.x0, y - 1.0F, layout.plot_x1, y + 1.0F},
                    frame.canvas.theme.accent);
}

std::optional<HoverText> HoverOfGutter(const Frame& frame, Point mouse) {
  if (frame.state.drag != Drag::kNone || !frame.state.gutter_lane.has_value()) return std::nullopt;
  for (const LaneBox& box : frame.layout.lane_boxes) {
    if (box.lane != *frame.state.gutter_lane) continue;
    const Lane& lane = frame.model.lanes[box.lane];
    if (box.pin.Contains(mouse.x, mouse.y)) {
      return HoverText{box.row.pinned ? "unpin " + lane.name : "pin " + lane.name,
                       "pinned ranks come first; a name can be dragged",
                       {}};
    }
    const std::string described = DescribeRow(frame.model, box.row);
    if (box.row.heads) return HoverText{lane.name, "a click on the triangle closes the group", {}};
    if (described.empty()) return std::nullopt;
    return HoverText{described,
                     box.row.closed ? "a click on the triangle shows them all" : "it was simulated",
                     {}};
  }
  return std::nullopt;
}

}  // namespace foretrain::ui

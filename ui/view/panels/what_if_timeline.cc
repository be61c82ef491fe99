// Draws the numbers above the timeline of the what-if view, and the ops over its lanes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/units.h"
#include "ui/view/screens/what_if_parts.h"

namespace foretrain::ui {
namespace {

constexpr float kMinPass = 150.0F;  // narrower passes show no ops, in pixels at scale 1
constexpr std::size_t kMaxOpRects = 6000;

// Other queues are coloured by the kind of transfer, compute ops by their pass.
Hue HueOfOp(const PassOp& op) {
  switch (op.queue) {
    case Queue::kCompute:
      break;
    case Queue::kH2d:
    case Queue::kD2h:
    case Queue::kNvme:
      return Hue::kCopy;
    default:
      return Hue::kCollective;
  }
  switch (op.pass) {
    case Pass::kForward:
      return Hue::kForward;
    case Pass::kRecompute:
      return Hue::kRecompute;
    case Pass::kBackwardWeight:
      return Hue::kUpdate;
    default:
      return Hue::kBackward;
  }
}

// Draws the ops of passes that are wide enough, at most kMaxOpRects. Compute ops take the upper
// part of a strip, transfers and collectives the lower part.
class OpPainter {
 public:
  OpPainter(const Frame& frame, const PassForecast& forecast)
      : frame_(frame), canvas_(frame.canvas), forecast_(forecast) {}

  void Draw() {
    for (const LaneBox& lane : frame_.layout.lane_boxes) {
      if (lane.strips.empty() || lane.lane >= forecast_.passes.slots.spans.size()) continue;
      DrawLane(static_cast<int>(lane.lane), lane.strips.front().box);
    }
  }

 private:
  float X(double seconds) const { return frame_.X(seconds * kNsPerSecond); }

  // Starts at the first visible slot. Pairs are left out, since their ops overlap.
  void DrawLane(int pp, const Box& strip) {
    const auto& slots = forecast_.passes.slots.spans[static_cast<std::size_t>(pp)];
    const double start_s = frame_.state.viewport.start_ns / kNsPerSecond;
    const double end_s = frame_.state.viewport.end_ns / kNsPerSecond;
    auto slot = std::partition_point(slots.begin(), slots.end(),
                                     [&](const SlotSpan& span) { return span.end_s <= start_s; });
    for (; slot != slots.end() && slot->start_s < end_s; ++slot) {
      if (slot->slot.paired || X(slot->end_s) - X(slot->start_s) < canvas_.Px(kMinPass)) continue;
      DrawPass(forecast_.passes.OpsOf(pp, slot->slot), *slot, strip);
    }
  }

  // Clears the pass's rectangle first, then draws ops, names and an outline.
  void DrawPass(const std::vector<PassOp>& ops, const SlotSpan& slot, const Box& strip) {
    const float x0 = std::max(strip.x0, std::round(X(slot.start_s)));
    const float x1 = std::min(strip.x1, std::round(X(slot.end_s)));
    canvas_.Fill({x0, strip.y0, x1, strip.y1}, canvas_.theme.lane);
    for (const PassOp& op : ops) DrawOp(op, slot.start_s, strip);
    DrawBlocks(ops, slot.start_s, strip);
    canvas_.Outline({x0, strip.y0, x1, strip.y1}, Faded(canvas_.theme.predicted, 0.5F));
  }

  // Clipped to the strip; a visible op is at least one pixel wide.
  void DrawOp(const PassOp& op, double from_s, const Box& strip) {
    if (drawn_ >= kMaxOpRects) return;
    Box box = strip;
    box.x0 = std::max(strip.x0, std::round(X(from_s + op.start_s)));
    box.x1 = std::min(strip.x1, std::round(X(from_s + op.end_s)));
    if (box.x1 <= strip.x0 || box.x0 >= strip.x1) return;
    box.x1 = std::max(box.x1, box.x0 + 1.0F);
    const float middle = strip.y0 + std::round(0.7F * strip.Height());
    (op.queue == Queue::kCompute ? box.y1 : box.y0) =
        op.queue == Queue::kCompute ? middle - 1.0F : middle;
    const Hue hue = HueOfOp(op);
    canvas_.Fill(box, canvas_.theme.Tinted(hue));
    if (box.Width() >= canvas_.Px(4)) canvas_.Outline(box, Faded(canvas_.theme.Of(hue), 0.6F));
    ++drawn_;
    ++canvas_.record.spans;
  }

  // The name of each block over its ops.
  void DrawBlocks(const std::vector<PassOp>& ops, double from_s, const Box& strip) {
    for (std::size_t i = 0; i < ops.size();) {
      std::size_t end = i;
      double end_s = 0, start_s = ops[i].start_s;
      // Neighbouring ops of one block and pass form a group.
      while (end < ops.size() && ops[end].block == ops[i].block && ops[end].pass == ops[i].pass) {
        start_s = std::min(start_s, ops[end].start_s);
        end_s = std::max(end_s, ops[end].end_s);
        ++end;
      }
      const Box box{std::max(strip.x0, X(from_s + start_s)), strip.y0,
                    std::min(strip.x1, X(from_s + end_s)),
                    strip.y0 + std::round(0.7F * strip.Height())};
      const std::string name = NameOf(ops[i].block);
      if (canvas_.WidthOf(canvas_.fonts.small, name) + canvas_.Px(8) < box.Width() &&
          box.Height() >= canvas_.HeightOf(canvas_.fonts.small)) {
        canvas_.TextIn(canvas_.fonts.small, box, Align::kCentre, canvas_.theme.text, name);
      }
      i = end;
    }
  }

  // Block 0 is the embedding, blocks 1 to `layers` are the layers, the next one is the head.
  std::string NameOf(int block) const {
    const int layers = frame_.model.Of(Side::kPredicted).run->layers;
    if (block == 0) return "embedding";
    return block > layers ? "head" : fmt::format("layer {}", block);
  }

  const Frame& frame_;
  Canvas& canvas_;
  const PassForecast& forecast_;
  std::size_t drawn_ = 0;
};

}  // namespace

// Spans of ops lie over the lanes, clipped to the plot.
void DrawPassOps(const Frame& frame, const PassForecast& forecast) {
  const Box plot = frame.PlotOf(frame.layout.lanes);
  frame.canvas.PushClip(plot);
  OpPainter(frame, forecast).Draw();
  frame.canvas.PopClip();
}

// A dashed line at the end of the pinned plan's step, labelled at the bottom.
void DrawPinnedEnd(const Frame& frame, double step_s) {
  Canvas& canvas = frame.canvas;
  const Box column{frame.layout.plot_x0, frame.layout.lanes.y0, frame.layout.plot_x1,
                   frame.layout.legend.y0};
  const float x = std::round(frame.X(step_s * kNsPerSecond));
  if (x < column.x0 || x > column.x1) return;
  canvas.DashedLine({x + 0.5F, column.y0}, {x + 0.5F, column.y1}, canvas.theme.amber, canvas.Px(3));
  const std::string text = "pinned " + FormatSeconds(step_s);
  const float width = canvas.WidthOf(canvas.fonts.mono_small, text) + canvas.Px(12);
  // Never over the names at the left.
  const float x0 = std::max(std::min(x, column.x1) - width, column.x0);
  const Box flag{x0, column.y1 - canvas.Px(20), x0 + width, column.y1 - canvas.Px(2)};
  canvas.Fill(flag, canvas.theme.panel, canvas.Px(2));
  canvas.TextIn(canvas.fonts.mono_small, flag, Align::kCentre, canvas.theme.amber, text);
}

// Numbers that do not fit the width are left out; the order is by importance.
void DrawStepNumbers(const ScreenFrame& frame, const Box& box,
                     const std::vector<WhatIfNumber>& numbers) {
  Canvas& canvas = frame.canvas;
  canvas.Fill(box, canvas.theme.panel);
  float x = box.x0 + canvas.Px(14);
  for (const WhatIfNumber& number : numbers) {
    const float width = std::max({canvas.WidthOf(canvas.fonts.small, number.name),
                                  canvas.WidthOf(canvas.fonts.mono_large, number.value),
                                  canvas.WidthOf(canvas.fonts.mono_small, number.detail),
                                  canvas.WidthOf(canvas.fonts.mono_small, number.change)});
    if (x + width > box.x1) break;
    float y = box.y0 + canvas.Px(8);
    canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, number.name);
    y += canvas.Px(17);
    canvas.Text(canvas.fonts.mono_large, {x, y},
                number.doubtful ? canvas.theme.amber : canvas.theme.text, number.value);
    y += canvas.Px(25);
    canvas.Text(canvas.fonts.mono_small, {x, y}, canvas.theme.text,
                number.change.empty() ? "=" : number.change);
    y += canvas.Px(16);
    canvas.Text(canvas.fonts.mono_small, {x, y}, canvas.theme.faint, number.detail);
    x += width + canvas.Px(24);
  }
}

}  // namespace foretrain::ui

// Draws the time axis and everything that crosses all panels: grid, step ends, cursor and measured
// range.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/panels/panels.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// The column of panels that share the time axis.
Box PlotColumn(const Frame& frame) {
  const Layout& layout = frame.layout;
  return {layout.plot_x0, layout.lanes.y0, layout.plot_x1, layout.legend.y0};
}

struct StepEnd {
  Side side = Side::kPredicted;
  float x = 0.0F;
  std::string label;
};

// Ends of the chosen steps; the measured one carries its relative difference to the forecast.
std::vector<StepEnd> StepEndsOf(const Frame& frame) {
  std::vector<StepEnd> ends;
  std::array<double, 2> lengths{};
  for (const Side side : kSides) {
    const SideModel& of = frame.model.Of(side);
    if (of.IsPresent() && of.step >= 0) lengths[Index(side)] = SecondsFromNs(of.step_ns);
  }
  const std::vector<std::string> texts = SecondsApart(lengths);
  for (const Side side : kSides) {
    const SideModel& of = frame.model.Of(side);
    if (!of.IsPresent() || of.step < 0) continue;
    ends.push_back({side, std::round(frame.X(of.Displayed(of.step_end_ns))),
                    fmt::format("{} {}", frame.model.NameOf(side), texts[Index(side)])});
  }
  if (ends.size() == 2 && lengths[0] > 0.0) {
    ends[1].label += "  " + SignedPercent(lengths[1] / lengths[0] - 1.0);
  }
  return ends;
}

float FlagWidth(const Frame& frame, const StepEnd& end) {
  return frame.canvas.WidthOf(frame.canvas.fonts.mono_small, end.label) + frame.canvas.Px(12);
}

struct Flag {
  StepEnd end;
  Box box;
};

// Covers the ticks below the flag first. Measured flags are filled, predicted ones outlined.
void DrawFlag(const Frame& frame, const Flag& flag) {
  Canvas& canvas = frame.canvas;
  const auto& [end, box] = flag;
  canvas.Fill(
      {box.x0 - canvas.Px(4), frame.layout.axis.y0, box.x1 + canvas.Px(4), frame.layout.axis.y1},
      canvas.theme.ground);
  if (end.side == Side::kMeasured) {
    canvas.Fill(box, canvas.theme.text, canvas.Px(2));
    canvas.TextIn(canvas.fonts.mono_small, box, Align::kCentre, canvas.theme.ground, end.label);
  } else {
    canvas.Fill(box, canvas.theme.panel, canvas.Px(2));
    canvas.Outline(box, canvas.theme.predicted, 1.0F, canvas.Px(2));
    canvas.TextIn(canvas.fonts.mono_small, box, Align::kCentre, canvas.theme.predicted, end.label);
  }
}

// Labels of the step ends on the axis. The last one lies to the right of its line if there is room,
// the others to the left of theirs; none overlap.
std::vector<Flag> FlagsOf(const Frame& frame) {
  if (frame.model.options.alignment != Alignment::kStepStart) return {};
  const Box column = PlotColumn(frame);
  std::vector<StepEnd> ends = StepEndsOf(frame);
  std::erase_if(ends, [&](const StepEnd& end) { return end.x < column.x0 || end.x > column.x1; });
  std::stable_sort(ends.begin(), ends.end(),
                   [](const StepEnd& a, const StepEnd& b) { return a.x < b.x; });
  const Box& axis = frame.layout.axis;
  std::vector<Flag> flags;
  float right = frame.layout.window.x1;
  for (std::size_t i = ends.size(); i-- > 0;) {
    const float width = FlagWidth(frame, ends[i]);
    const bool last = i + 1 == ends.size();
    float x0 = std::min(ends[i].x, right) - width;
    if (last && ends[i].x + width <= right) x0 = ends[i].x;
    flags.push_back(
        {ends[i], {x0, axis.y0 + frame.canvas.Px(4), x0 + width, axis.y1 - frame.canvas.Px(3)}});
    right = x0 - frame.canvas.Px(4);
  }
  return flags;
}

// Whether a flag would cover part of a label, which would then be misread.
bool IsUnderFlag(const std::vector<Flag>& flags, float x0, float x1, float gap) {
  return std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) {
    return x1 > flag.box.x0 - gap && x0 < flag.box.x1 + gap;
  });
}

std::string MeasureText(const Measure& measure) {
  return PreciseTime(std::abs(measure.to_ns - measure.from_ns));
}

// Where the length of the measured range stands: on the axis above it, where it covers no op's
// name. Below the plots if a flag has that place.
Box MeasureLabel(const Frame& frame, const std::vector<Flag>& flags) {
  if (!frame.state.measure.has_value()) return {};
  const Canvas& canvas = frame.canvas;
  const Measure& measure = *frame.state.measure;
  const Box column = PlotColumn(frame);
  const float a = std::clamp(frame.X(measure.from_ns), column.x0, column.x1);
  const float b = std::clamp(frame.X(measure.to_ns), column.x0, column.x1);
  const float width = canvas.WidthOf(canvas.fonts.mono, MeasureText(measure)) + canvas.Px(14);
  const float x0 =
      std::clamp((a + b - width) / 2, column.x0, std::max(column.x0, column.x1 - width));
  const Box& axis = frame.layout.axis;
  const Box above{x0, axis.y0 + canvas.Px(2), x0 + width, axis.y1 - canvas.Px(2)};
  if (!IsUnderFlag(flags, above.x0, above.x1, canvas.Px(4))) return above;
  return {x0, column.y1 - canvas.Px(24), x0 + width, column.y1 - canvas.Px(2)};
}

// A band with its length in a label that stays within the plot.
void DrawMeasure(const Frame& frame) {
  if (!frame.state.measure.has_value()) return;
  Canvas& canvas = frame.canvas;
  const Measure& measure = *frame.state.measure;
  const Box column = PlotColumn(frame);
  const float a = std::clamp(frame.X(measure.from_ns), column.x0, column.x1);
  const float b = std::clamp(frame.X(measure.to_ns), column.x0, column.x1);
  const Box band{std::min(a, b), column.y0, std::max(a, b), column.y1};
  canvas.Fill(band, Faded(canvas.theme.accent, 0.10F));
  canvas.Line({band.x0, band.y0}, {band.x0, band.y1}, canvas.theme.accent, canvas.scale);
  canvas.Line({band.x1, band.y0}, {band.x1, band.y1}, canvas.theme.accent, canvas.scale);
  const Box label = MeasureLabel(frame, FlagsOf(frame));
  canvas.Fill(label, canvas.theme.accent, canvas.Px(3));
  canvas.TextIn(canvas.fonts.mono, label, Align::kCentre, canvas.theme.ground,
                MeasureText(measure));
}

}  // namespace

// Flags decide which tick labels are shown, so they are computed first and drawn later, above
// everything.
void DrawAxis(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Box& axis = frame.layout.axis;
  // Below an overview the gutter belongs to the controls of the lanes.
  const bool gutter = frame.layout.overview.IsEmpty() || frame.model.lanes.size() < 2;
  const float left = gutter ? axis.x0 : frame.layout.plot_x0 - canvas.Px(4);
  canvas.Fill({left, axis.y0, axis.x1, axis.y1}, canvas.theme.ground);
  if (gutter) {
    canvas.TextIn(canvas.fonts.small,
                  {axis.x0 + canvas.Px(14), axis.y0, frame.layout.plot_x0, axis.y1}, Align::kLeft,
                  canvas.theme.faint, "time");
  }
  canvas.PushClip({frame.layout.plot_x0 - canvas.Px(20), axis.y0, axis.x1, axis.y1});
  const std::vector<Flag> flags = FlagsOf(frame);
  const Box measured = MeasureLabel(frame, flags);
  for (const Tick& tick : AxisTicks(frame.layout, frame.state.viewport)) {
    const float x = std::round(frame.X(tick.value));
    canvas.Line({x, axis.y1 - canvas.Px(5)}, {x, axis.y1}, canvas.theme.faint);
    const float width = canvas.WidthOf(canvas.fonts.mono_small, tick.label);
    const float x0 = x + canvas.Px(4);
    // Labels that the window's edge would cut are left out too.
    const bool under = !measured.IsEmpty() && measured.y0 < axis.y1 &&
                       x0 + width > measured.x0 - canvas.Px(4) && x0 < measured.x1 + canvas.Px(4);
    if (under || x0 + width > axis.x1 || IsUnderFlag(flags, x0, x0 + width, canvas.Px(4))) continue;
    canvas.Text(canvas.fonts.mono_small, {x0, axis.y0 + canvas.Px(7)}, canvas.theme.muted,
                tick.label);
  }
  canvas.PopClip();
}

void DrawGrid(const Frame& frame) {
  const Box column = PlotColumn(frame);
  for (const Tick& tick : AxisTicks(frame.layout, frame.state.viewport)) {
    const float x = std::round(frame.X(tick.value));
    if (x < column.x0 || x >= column.x1) continue;
    frame.canvas.Fill({x, column.y0, x + 1.0F, column.y1}, frame.canvas.theme.grid);
  }
}

// The band between both ends is red if the measured step is longer, blue if it is shorter.
void DrawStepEnds(const Frame& frame) {
  if (frame.model.options.alignment != Alignment::kStepStart) return;
  Canvas& canvas = frame.canvas;
  const Box column = PlotColumn(frame);
  const std::vector<StepEnd> ends = StepEndsOf(frame);
  const auto visible = [&](float x) { return x >= column.x0 && x <= column.x1; };
  if (ends.size() == 2) {
    const float a = std::clamp(ends[0].x, column.x0, column.x1);
    const float b = std::clamp(ends[1].x, column.x0, column.x1);
    const Colour colour = b > a ? canvas.theme.worse : canvas.theme.better;
    canvas.Fill({std::min(a, b), column.y0, std::max(a, b), column.y1}, Faded(colour, 0.12F));
  }
  for (const StepEnd& end : ends) {
    if (!visible(end.x)) continue;
    if (end.side == Side::kPredicted) {
      canvas.DashedLine({end.x + 0.5F, column.y0}, {end.x + 0.5F, column.y1},
                        canvas.theme.predicted, canvas.Px(4));
    } else {
      canvas.Fill({end.x, column.y0, end.x + std::max(1.0F, canvas.scale), column.y1},
                  canvas.theme.text);
    }
  }
  canvas.PushClip({frame.layout.plot_x0 - canvas.Px(20), frame.layout.axis.y0,
                   frame.layout.window.x1, frame.layout.axis.y1});
  for (const Flag& flag : FlagsOf(frame)) DrawFlag(frame, flag);
  canvas.PopClip();
}

// A line at the mouse across all panels, and the time on the axis.
void DrawCursor(const Frame& frame, float mouse_x, float mouse_y) {
  Canvas& canvas = frame.canvas;
  DrawMeasure(frame);
  const Box column = PlotColumn(frame);
  if (!column.Contains(mouse_x, mouse_y)) return;
  const float x = std::round(mouse_x);
  canvas.Fill({x, column.y0, x + 1.0F, column.y1}, Faded(canvas.theme.accent, 0.28F));
  const double time = frame.state.viewport.ToTime(mouse_x - frame.layout.plot_x0, column.Width());
  const std::string text = PreciseTime(time);
  const float width = canvas.WidthOf(canvas.fonts.mono_small, text) + canvas.Px(10);
  const Box& axis = frame.layout.axis;
  const float x0 = std::clamp(x - width / 2, column.x0, column.x1 - width);
  const Box box{x0, axis.y0 + canvas.Px(4), x0 + width, axis.y1 - canvas.Px(3)};
  canvas.Fill(box, canvas.theme.line, canvas.Px(2));
  canvas.TextIn(canvas.fonts.mono_small, box, Align::kCentre, canvas.theme.text, text);
}

}  // namespace foretrain::ui

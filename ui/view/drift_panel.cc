// The drift plot: how far each rank lies behind its forecast.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ui/view/panels.h"
#include "ui/view_model/drift.h"
#include "ui/view_model/ticks.h"

namespace foretrain {
namespace {

constexpr std::size_t kMostNamed = 8;  // lines in a colour of their own, with a name
constexpr float kLabelHeight = 15.0F;

struct Curve {
  std::size_t lane = 0;
  std::vector<DriftColumn> columns;
  Colour colour{};
  bool named = false;
};

double EndOf(const Lane& lane) { return std::abs(static_cast<double>(lane.drift.back().drift_ns)); }

// All lanes with drift; the farthest ones, and the lane under the mouse, get names.
std::vector<Curve> CurvesOf(const Frame& frame) {
  std::vector<Curve> curves;
  const SideModel& measured = frame.model.Of(Side::kMeasured);
  const auto origin = static_cast<double>(measured.step_start_ns - measured.offset_ns);
  const Viewport& view = frame.state.viewport;
  for (std::size_t i = 0; i < frame.model.lanes.size(); ++i) {
    const Lane& lane = frame.model.lanes[i];
    if (lane.drift.empty()) continue;
    curves.push_back({i,
                      FoldDrift(lane.drift, view.start_ns - origin, view.end_ns - origin,
                                frame.layout.Columns()),
                      frame.canvas.theme.line, false});
  }
  std::vector<std::size_t> order(curves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return EndOf(frame.model.lanes[curves[a].lane]) > EndOf(frame.model.lanes[curves[b].lane]);
  });
  const std::size_t named = std::min(kMostNamed, order.size());
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(named));
  for (std::size_t i = 0; i < named; ++i) {
    curves[order[i]].named = true;
    curves[order[i]].colour = frame.canvas.theme.ranks[i % frame.canvas.theme.ranks.size()];
  }
  return curves;
}

struct Range {
  double low = 0.0;
  double high = 0.0;
};

Range RangeOf(const std::vector<Curve>& curves) {
  Range range;
  for (const Curve& curve : curves) {
    for (const DriftColumn& column : curve.columns) {
      range.low = std::min(range.low, column.low_ns);
      range.high = std::max(range.high, column.high_ns);
    }
  }
  const double least = std::max(10.0, range.high - range.low);
  return {range.low - 0.08 * least, range.high + 0.14 * least};
}

float YOf(const Box& plot, const Range& range, double drift_ns) {
  const double share = (drift_ns - range.low) / (range.high - range.low);
  return plot.y1 - static_cast<float>(share) * plot.Height();
}

void DrawCurve(const Frame& frame, const Box& plot, const Range& range, const Curve& curve) {
  std::vector<Point> points;
  const auto add = [&](float x, double drift) {
    const Point point{x, YOf(plot, range, drift)};
    const bool same = !points.empty() && points.back().x == point.x && points.back().y == point.y;
    if (!same) points.push_back(point);
  };
  for (const DriftColumn& column : curve.columns) {
    const float x = plot.x0 + static_cast<float>(column.column) + 0.5F;
    add(x, column.first_ns);
    if (column.low_ns < std::min(column.first_ns, column.last_ns)) add(x, column.low_ns);
    if (column.high_ns > std::max(column.first_ns, column.last_ns)) add(x, column.high_ns);
    add(x, column.last_ns);
  }
  frame.canvas.Lines(points, curve.colour, (curve.named ? 1.8F : 1.0F) * frame.canvas.scale);
}

struct Label {
  float y = 0.0F;
  float x = 0.0F;
  const Curve* curve = nullptr;
  std::string text;
};

// Names beside the ends of the lines, pushed apart where they would cover one another.
void DrawNames(const Frame& frame, const Box& plot, const Range& range,
               const std::vector<Curve>& curves) {
  Canvas& canvas = frame.canvas;
  std::vector<Label> labels;
  for (const Curve& curve : curves) {
    if (!curve.named || curve.columns.empty()) continue;
    const DriftColumn& end = curve.columns.back();
    const Lane& lane = frame.model.lanes[curve.lane];
    labels.push_back({YOf(plot, range, end.last_ns), plot.x0 + static_cast<float>(end.column),
                      &curve, lane.name + "  " + SignedTime(end.last_ns)});
  }
  std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
  const float height = canvas.Px(kLabelHeight);
  float next = plot.y0;
  for (Label& label : labels) {
    label.y = std::max(label.y - height / 2, next);
    next = label.y + height;
  }
  float below = plot.y1;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, below - height);
    below = label->y;
  }
  for (const Label& label : labels) {
    const float width = canvas.WidthOf(canvas.fonts.mono_small, label.text) + canvas.Px(10);
    const bool right = label.x + canvas.Px(8) + width <= plot.x1;
    const float x0 =
        right ? label.x + canvas.Px(8) : std::min(label.x, plot.x1) - width - canvas.Px(6);
    const Box box{x0, label.y, x0 + width, label.y + height};
    canvas.Fill(box, Faded(canvas.theme.lane, 0.85F), canvas.Px(2));
    canvas.TextIn(canvas.fonts.mono_small, box, Align::kCentre, label.curve->colour, label.text);
  }
}

}  // namespace

void DrawDrift(const Frame& frame) {
  const Box& box = frame.layout.drift;
  if (box.IsEmpty()) return;
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box plot = frame.PlotOf(box);
  canvas.Text(canvas.fonts.bold, {canvas.Px(14), box.y0 + canvas.Px(6)}, theme.text, "drift");
  canvas.Text(canvas.fonts.small, {canvas.Px(14), box.y0 + canvas.Px(25)}, theme.muted, "behind");
  canvas.Text(canvas.fonts.small, {canvas.Px(14), box.y0 + canvas.Px(40)}, theme.muted, "forecast");
  const std::vector<Curve> curves = CurvesOf(frame);
  const Range range = RangeOf(curves);
  for (const Tick& tick : DriftTicks(range.low, range.high, 4)) {
    const float y = std::round(YOf(plot, range, tick.value));
    const bool zero = tick.label == "0";
    canvas.Fill({plot.x0, y, plot.x1, y + 1.0F}, zero ? theme.faint : theme.grid);
    canvas.TextIn(canvas.fonts.mono_small,
                  {canvas.Px(40), y - canvas.Px(8), plot.x0 - canvas.Px(6), y + canvas.Px(8)},
                  Align::kRight, theme.faint, tick.label);
  }
  canvas.PushClip(plot);
  for (const Curve& curve : curves) {
    if (!curve.named) DrawCurve(frame, plot, range, curve);
  }
  for (const Curve& curve : curves) {
    if (curve.named) DrawCurve(frame, plot, range, curve);
  }
  DrawNames(frame, plot, range, curves);
  canvas.PopClip();
  canvas.Fill({0.0F, box.y1, frame.layout.window.x1, box.y1 + 1.0F}, theme.line);
}

}  // namespace foretrain

// The drift plot: how far each rank lies behind its forecast.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ui/view/panels.h"
#include "ui/view_model/drift.h"
#include "ui/view_model/ticks.h"

namespace foretrain::ui {
namespace {

constexpr std::size_t kMostNamed = 8;  // lines in a colour of their own, with a name
constexpr float kNames = 22.0F;        // height of the row of names
// Points of all named lines together, and of the others: lines cost a software renderer more than
// all spans do, smooth ones three times as much.
constexpr int kMostNamedPoints = 12'000;
constexpr int kMostOtherPoints = 6'000;
constexpr std::size_t kMostSmooth =
    300;  // points; curves of more are strokes of columns, seen as such
constexpr int kLeastColumns = 60;
constexpr int kPointsOfColumn = 4;

struct Curve {
  std::size_t lane = 0;
  std::vector<DriftColumn> columns;
  int all_columns = 1;  // that the plot is cut into
  Colour colour{};
  bool named = false;
};

double EndOf(const Lane& lane) { return std::abs(static_cast<double>(lane.drift.back().drift_ns)); }

// The columns of a curve that shares `most` points with others, `sharing` with it.
void Fold(const Frame& frame, int most, std::size_t sharing, Curve& curve) {
  const SideModel& measured = frame.model.Of(Side::kMeasured);
  const auto origin = static_cast<double>(measured.step_start_ns - measured.offset_ns);
  const Viewport& view = frame.state.viewport;
  const int share = most / kPointsOfColumn / static_cast<int>(std::max<std::size_t>(1, sharing));
  curve.all_columns = std::min(frame.layout.Columns(), std::max(kLeastColumns, share));
  curve.columns = FoldDrift(frame.model.lanes[curve.lane].drift, view.start_ns - origin,
                            view.end_ns - origin, curve.all_columns);
}

// All lanes with drift; the farthest ones, and the lane under the mouse, get names.
std::vector<Curve> CurvesOf(const Frame& frame) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < frame.model.lanes.size(); ++i) {
    if (frame.model.lanes[i].drift.empty()) continue;
    curves.push_back({.lane = i, .columns = {}, .colour = frame.canvas.theme.line});
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
  for (Curve& curve : curves) {
    const std::size_t sharing = curve.named ? named : curves.size() - named;
    Fold(frame, curve.named ? kMostNamedPoints : kMostOtherPoints, sharing, curve);
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
  return {range.low - 0.08 * least, range.high + 0.06 * least};
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
  const float wide = curve.all_columns == frame.layout.Columns()
                         ? 1.0F
                         : plot.Width() / static_cast<float>(curve.all_columns);
  for (const DriftColumn& column : curve.columns) {
    const float x = plot.x0 + (static_cast<float>(column.column) + 0.5F) * wide;
    add(x, column.first_ns);
    if (column.low_ns < std::min(column.first_ns, column.last_ns)) add(x, column.low_ns);
    if (column.high_ns > std::max(column.first_ns, column.last_ns)) add(x, column.high_ns);
    add(x, column.last_ns);
  }
  frame.canvas.Lines(points, curve.colour, (curve.named ? 1.8F : 1.0F) * frame.canvas.scale,
                     points.size() <= kMostSmooth ? Edges::kSmooth : Edges::kHard);
}

// Who is who, above the lines.
void DrawNames(const Frame& frame, const Box& plot, const std::vector<Curve>& curves) {
  Canvas& canvas = frame.canvas;
  float x = plot.x0 + canvas.Px(8);
  const float y = plot.y0 + canvas.Px(5);
  for (const Curve& curve : curves) {
    if (!curve.named) continue;
    const Lane& lane = frame.model.lanes[curve.lane];
    const std::string drift = SignedTime(static_cast<double>(lane.drift.back().drift_ns));
    const float width = canvas.WidthOf(canvas.fonts.small, lane.name) +
                        canvas.WidthOf(canvas.fonts.mono_small, drift) + canvas.Px(46);
    if (x + width > plot.x1) break;
    const float middle = y + canvas.Px(7);
    canvas.Fill({x, middle - canvas.Px(1), x + canvas.Px(14), middle + canvas.Px(1)}, curve.colour);
    x += canvas.Px(20);
    x += canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, lane.name) + canvas.Px(6);
    x += canvas.Text(canvas.fonts.mono_small, {x, y + canvas.Px(1)}, canvas.theme.text, drift) +
         canvas.Px(20);
  }
}

}  // namespace

void DrawDrift(const Frame& frame) {
  const Box& box = frame.layout.drift;
  if (box.IsEmpty()) return;
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const float x = box.x0 + canvas.Px(14);
  canvas.Text(canvas.fonts.bold, {x, box.y0 + canvas.Px(6)}, theme.text, "drift");
  canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(25)}, theme.muted, "behind");
  canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(40)}, theme.muted, "forecast");
  Box plot = frame.PlotOf(box);
  const std::vector<Curve> curves = CurvesOf(frame);
  DrawNames(frame, plot, curves);
  plot.y0 += canvas.Px(kNames);
  const Range range = RangeOf(curves);
  for (const Tick& tick : DriftTicks(range.low, range.high, 4)) {
    const float y = std::round(YOf(plot, range, tick.value));
    const bool zero = tick.label == "0";
    canvas.Fill({plot.x0, y, plot.x1, y + 1.0F}, zero ? theme.faint : theme.grid);
    canvas.TextIn(
        canvas.fonts.mono_small,
        {box.x0 + canvas.Px(40), y - canvas.Px(8), plot.x0 - canvas.Px(6), y + canvas.Px(8)},
        Align::kRight, theme.faint, tick.label);
  }
  canvas.PushClip({plot.x0, plot.y0 - canvas.Px(2), plot.x1, plot.y1});
  for (const bool named : {false, true}) {
    for (const Curve& curve : curves) {
      if (curve.named == named) DrawCurve(frame, plot, range, curve);
    }
  }
  canvas.PopClip();
  canvas.Fill({box.x0, box.y1, box.x1, box.y1 + 1.0F}, theme.line);
}

}  // namespace foretrain::ui

#include "ui/view/lanes/drift_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/parallel.h"
#include "ui/view/lanes/stroke.h"
#include "ui/view_model/timeline/drift.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr std::size_t kMaxNamed = 8;
constexpr float kNames = 22.0F;  // height of the row of names at scale 1
constexpr float kNamedWidth = 1.8F;
constexpr int kThreads = 4;
constexpr std::size_t kParts = 16;  // of the picture, painted in parallel

// How far a lane ends from its forecast, in either direction.
std::int64_t EndOf(const Lane& lane) { return std::abs(lane.drift.back().drift_ns); }

// One curve per lane with drift. The kMaxNamed lanes that end farthest from their forecast get a
// colour and a name, in the order of the lanes.
std::vector<DriftCurve> CurvesOf(const CompareModel& model, const Theme& theme) {
  std::vector<DriftCurve> curves;
  for (std::size_t i = 0; i < model.lanes.size(); ++i) {
    if (!model.lanes[i].drift.empty()) curves.push_back({.lane = i, .colour = theme.line});
  }
  std::vector<std::size_t> order(curves.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return EndOf(model.lanes[curves[a].lane]) > EndOf(model.lanes[curves[b].lane]);
  });
  order.resize(std::min(kMaxNamed, order.size()));
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    curves[order[i]].named = true;
    curves[order[i]].colour = theme.ranks[i % theme.ranks.size()];
  }
  return curves;
}

using Folded = std::vector<DriftColumn>;

// The vertical range of all curves, with a margin and a minimum, so that flat curves do not become
// noise.
void SetRange(const std::vector<Folded>& folded, DriftPicture& picture) {
  for (const Folded& columns : folded) {
    for (const DriftColumn& column : columns) {
      picture.low_ns = std::min(picture.low_ns, column.low_ns);
      picture.high_ns = std::max(picture.high_ns, column.high_ns);
    }
  }
  const double min = std::max(10.0, picture.high_ns - picture.low_ns);
  picture.low_ns -= 0.08 * min;
  picture.high_ns += 0.06 * min;
}

// The columns that a folded curve covers: its range within each column, and the line to the next
// one. `plot` is relative to the picture's top left corner.
std::vector<StrokeColumn> StrokeOf(const DriftPicture& picture, const Box& plot,
                                   const Folded& folded) {
  std::vector<StrokeColumn> columns(static_cast<std::size_t>(picture.image.width));
  const auto point = [&](const DriftColumn& column, double drift_ns) {
    return Point{static_cast<float>(column.column) + 0.5F, DriftY(picture, plot, drift_ns)};
  };
  for (std::size_t i = 0; i < folded.size(); ++i) {
    const DriftColumn& column = folded[i];
    AddLine(point(column, column.low_ns), point(column, column.high_ns), columns);
    if (i == 0) continue;
    AddLine(point(folded[i - 1], folded[i - 1].last_ns), point(column, column.first_ns), columns);
  }
  return columns;
}

// The grid is painted into the picture, below the curves; the line of zero drift is stronger.
void PaintGrid(const Layout& layout, const Viewport& viewport, const Theme& theme, const Box& plot,
               DriftPicture& picture) {
  Image& image = picture.image;
  for (const Tick& tick : AxisTicks(layout, viewport)) {
    const double x = viewport.ToX(tick.value, layout.plot_x1 - layout.plot_x0);
    image.Fill(static_cast<int>(std::lround(x)), 0, image.height, theme.grid);
  }
  for (const Tick& tick : DriftTicks(picture.low_ns, picture.high_ns, kMaxDriftTicks)) {
    const int y = static_cast<int>(std::lround(DriftY(picture, plot, tick.value)));
    image.FillBox(0, y, image.width, y + 1, tick.label == "0" ? theme.faint : theme.grid);
  }
}

// Paints parts of the picture in parallel. Each part paints all curves in the same order, named
// ones last, so the result does not depend on timing.
void PaintCurves(const std::vector<std::vector<StrokeColumn>>& strokes, float scale,
                 DriftPicture& picture) {
  const auto columns = static_cast<std::size_t>(picture.image.width);
  ForEachInParallel(kParts, kThreads, [&](std::size_t part) {
    const std::size_t first = columns * part / kParts, last = columns * (part + 1) / kParts;
    for (const bool named : {false, true}) {
      for (std::size_t i = 0; i < strokes.size(); ++i) {
        const DriftCurve& curve = picture.curves[i];
        if (curve.named != named) continue;
        PaintStroke(strokes[i], first, last, (named ? kNamedWidth : 1.0F) * scale, curve.colour,
                    picture.image);
      }
    }
  });
}

}  // namespace

Box DriftPlot(const Layout& layout) {
  const Box& box = layout.drift;
  return {layout.plot_x0, box.y0 + std::round(kNames * layout.scale), layout.plot_x1, box.y1};
}

float DriftY(const DriftPicture& picture, const Box& plot, double drift_ns) {
  const double share = (drift_ns - picture.low_ns) / (picture.high_ns - picture.low_ns);
  return plot.y1 - static_cast<float>(share) * plot.Height();
}

// Folding and strokes are computed per curve in parallel, painting per range of columns, because
// curves overlap in pixels.
DriftPicture MakeDriftPicture(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme) {
  DriftPicture picture;
  const Box box = DriftPlot(layout);
  if (layout.drift.IsEmpty() || box.IsEmpty() || layout.Columns() == 0) return picture;
  picture.curves = CurvesOf(model, theme);
  const SideModel& measured = model.Of(Side::kMeasured);
  const auto origin = static_cast<double>(measured.step_start_ns - measured.offset_ns);
  std::vector<Folded> folded(picture.curves.size());
  ForEachInParallel(folded.size(), kThreads, [&](std::size_t i) {
    folded[i] = FoldDrift(model.lanes[picture.curves[i].lane].drift, viewport.start_ns - origin,
                          viewport.end_ns - origin, layout.Columns());
  });
  SetRange(folded, picture);
  picture.image.Resize(layout.Columns(), static_cast<int>(box.Height()), theme.ground);
  const Box plot{0.0F, 0.0F, box.Width(), box.Height()};
  PaintGrid(layout, viewport, theme, plot, picture);
  std::vector<std::vector<StrokeColumn>> strokes(folded.size());
  ForEachInParallel(folded.size(), kThreads,
                    [&](std::size_t i) { strokes[i] = StrokeOf(picture, plot, folded[i]); });
  PaintCurves(strokes, layout.scale, picture);
  return picture;
}

}  // namespace foretrain::ui

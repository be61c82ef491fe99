#include "ui/view/panels/memory_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// Folds a side's curve into columns of pixels. Columns outside the loaded stretches stay empty:
// memory samples are loaded together with spans.
std::vector<MemoryColumn> ColumnsOf(const MemoryPlot& plot, Side side) {
  const SideModel& of = plot.sides.Of(side);
  const double start = of.Own(plot.viewport.start_ns), end = of.Own(plot.viewport.end_ns);
  std::vector<MemoryColumn> columns =
      plot.panel.curves[Index(side)].Fold(start, end, plot.Columns());
  if (!of.IsPresent() || of.run->sums == nullptr) return columns;
  // Samples are loaded only where spans are; elsewhere nothing is drawn.
  const double width = (end - start) / std::max(1, plot.Columns());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const double at = start + (static_cast<double>(c) + 0.5) * width;
    if (!of.run->IsLoaded(at, at)) columns[c] = {};
  }
  return columns;
}

// A filled dot for the measured peak, a ring for the predicted one. Only if the moment is visible.
void DrawPeak(Canvas& canvas, const MemoryPlot& plot, Side side) {
  const MemoryLevel& peak = plot.panel.peaks[Index(side)];
  if (plot.panel.curves[Index(side)].empty() || peak.total_bytes <= 0) return;
  const float x = plot.X(plot.sides.Of(side).Displayed(peak.time_ns));
  if (x < plot.box.x0 || x >= plot.box.x1) return;
  const float y = plot.Y(static_cast<double>(peak.total_bytes));
  const bool measured = side == Side::kMeasured;
  canvas.Dot({x, y}, canvas.Px(5), canvas.theme.ground);
  canvas.Dot({x, y}, canvas.Px(4), measured ? canvas.theme.text : canvas.theme.predicted);
  if (!measured) canvas.Dot({x, y}, canvas.Px(2), canvas.theme.ground);
}

}  // namespace

// Clamped: pixel coordinates far outside the plot would lose precision.
float MemoryPlot::X(double displayed_ns) const {
  const double x = viewport.ToX(displayed_ns, box.Width());
  return box.x0 + static_cast<float>(std::clamp(x, -1e5, 1e5));
}

float MemoryPlot::Y(double bytes) const {
  return box.y1 - static_cast<float>(bytes / top_bytes) * box.Height();
}

// Sums are rounded, not the parts, so that rounding errors do not add up over the categories.
Image StackedAreas(const MemoryPlot& plot, const Theme& theme) {
  Image image;
  const int height = std::max(0, static_cast<int>(plot.box.Height()));
  image.Resize(plot.Columns(), height);
  const Side side = plot.panel.Stacked();
  // Empty without a run.
  if (!plot.sides.Of(side).IsPresent()) return image;
  const std::vector<MemoryColumn> columns = ColumnsOf(plot, side);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::int64_t sum = 0;
    int bottom = height;
    for (std::size_t part = 0; part < kCategoryCount; ++part) {
      sum += columns[c].max.parts[part];
      const double share = static_cast<double>(sum) / plot.top_bytes;
      const int top = height - static_cast<int>(std::lround(share * height));
      const Colour colour = theme.categories[part];
      image.Fill(static_cast<int>(c), top, bottom,
                 side == Side::kPredicted ? Mixed(theme.ground, colour, 0.5F) : colour);
      bottom = std::min(bottom, top);
    }
  }
  return image;
}

// Leaves out labels near the bottom edge, which would touch the panel below.
void DrawByteGrid(Canvas& canvas, const MemoryPlot& plot, float gap, float labels_from) {
  const Box& box = plot.box;
  const int ticks = std::max(1, static_cast<int>(box.Height() / gap));
  for (const Tick& tick : ByteTicks(static_cast<std::int64_t>(plot.top_bytes), ticks)) {
    const float y = std::round(plot.Y(tick.value));
    canvas.Fill({box.x0, y, box.x1, y + 1.0F}, canvas.theme.grid);
    if (y < labels_from || y > box.y1 - canvas.Px(6)) continue;
    canvas.TextIn(
        canvas.fonts.mono_small,
        {box.x0 - canvas.Px(100), y - canvas.Px(8), box.x0 - canvas.Px(6), y + canvas.Px(8)},
        Align::kRight, canvas.theme.faint, tick.label);
  }
}

// A step line: horizontal within a level and vertical between levels. Only changes of level become
// points.
void DrawForecastLine(Canvas& canvas, const MemoryPlot& plot) {
  if (plot.panel.Stacked() != Side::kMeasured) return;
  const std::vector<MemoryColumn> columns = ColumnsOf(plot, Side::kPredicted);
  std::vector<Point> points;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const float x = plot.box.x0 + static_cast<float>(c);
    const float y = plot.Y(static_cast<double>(columns[c].max.total_bytes));
    if (!points.empty() && points.back().y != y) points.push_back({x, points.back().y});
    if (points.empty() || points.back().y != y) points.push_back({x, y});
  }
  if (!points.empty()) points.push_back({plot.box.x1, points.back().y});
  canvas.Lines(points, canvas.theme.text, 1.5F * canvas.scale);
}

void DrawPeaks(Canvas& canvas, const MemoryPlot& plot) {
  for (const Side side : kSides) DrawPeak(canvas, plot, side);
}

// Left out if the capacity is above the scale.
void DrawCapacity(Canvas& canvas, const MemoryPlot& plot, std::int64_t capacity_bytes) {
  if (capacity_bytes <= 0 || static_cast<double>(capacity_bytes) > plot.top_bytes) return;
  const float y = std::round(plot.Y(static_cast<double>(capacity_bytes)));
  canvas.DashedLine({plot.box.x0, y}, {plot.box.x1, y}, canvas.theme.amber, canvas.Px(5));
}

void DrawCategorySwatch(Canvas& canvas, Category category, const Box& box) {
  canvas.Fill(box, canvas.theme.categories[static_cast<std::size_t>(category)], canvas.Px(2));
}

}  // namespace foretrain::ui

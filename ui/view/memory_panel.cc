// The memory panel: measured bytes stacked by category, the forecast as a line over them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "ui/view/panels.h"
#include "ui/view_model/ticks.h"

namespace foretrain::ui {
namespace {

constexpr double kHeadroom = 1.28;  // above the highest curve: names of categories lie there

// The run whose bytes are stacked: the measured one where it has samples.
Side StackedSide(const MemoryPanel& panel) {
  return panel.curves[Index(Side::kMeasured)].empty() ? Side::kPredicted : Side::kMeasured;
}

std::vector<MemoryColumn> ColumnsOf(const CompareModel& model, const Layout& layout,
                                    const Viewport& viewport, const MemoryPanel& panel, Side side) {
  const SideModel& of = model.Of(side);
  return panel.curves[Index(side)].Fold(of.Own(viewport.start_ns), of.Own(viewport.end_ns),
                                        layout.Columns());
}

float YOf(const Box& plot, double top_bytes, std::int64_t bytes) {
  return plot.y1 - static_cast<float>(static_cast<double>(bytes) / top_bytes) * plot.Height();
}

// The forecast as steps.
void DrawForecast(const Frame& frame, const Box& plot, const MemoryPanel& panel, double top_bytes) {
  const std::vector<MemoryColumn> columns =
      ColumnsOf(frame.model, frame.layout, frame.state.viewport, panel, Side::kPredicted);
  std::vector<Point> points;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const float x = plot.x0 + static_cast<float>(c);
    const float y = YOf(plot, top_bytes, columns[c].most.total_bytes);
    if (!points.empty() && points.back().y != y) points.push_back({x, points.back().y});
    if (points.empty() || points.back().y != y) points.push_back({x, y});
  }
  if (!points.empty()) points.push_back({plot.x1, points.back().y});
  frame.canvas.Lines(points, frame.canvas.theme.text, 1.5F * frame.canvas.scale);
}

void DrawPeak(const Frame& frame, const Box& plot, const MemoryPanel& panel, Side side,
              double top_bytes) {
  const MemoryLevel& peak = panel.peaks[Index(side)];
  if (panel.curves[Index(side)].empty() || peak.total_bytes <= 0) return;
  Canvas& canvas = frame.canvas;
  const float x = frame.X(frame.model.Of(side).Displayed(peak.time_ns));
  if (x < plot.x0 || x >= plot.x1) return;
  const float y = YOf(plot, top_bytes, peak.total_bytes);
  const bool measured = side == Side::kMeasured;
  canvas.Dot({x, y}, canvas.Px(5), canvas.theme.ground);
  canvas.Dot({x, y}, canvas.Px(4), measured ? canvas.theme.text : canvas.theme.predicted);
  if (!measured) canvas.Dot({x, y}, canvas.Px(2), canvas.theme.ground);
}

// "peak 10.6 GiB  predicted 10.5 GiB"; returns where it ends.
float DrawPeakText(const Frame& frame, const MemoryPanel& panel, Point at) {
  Canvas& canvas = frame.canvas;
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (panel.curves[Index(side)].empty()) continue;
    const std::string_view name = side == Side::kMeasured ? "measured peak" : "predicted peak";
    at.x += canvas.Text(canvas.fonts.small, at, canvas.theme.muted, name) + canvas.Px(6);
    at.x += canvas.Text(canvas.fonts.mono_small, {at.x, at.y + canvas.Px(1)}, canvas.theme.text,
                        FormatBytes(panel.peaks[Index(side)].total_bytes)) +
            canvas.Px(18);
  }
  return at.x + canvas.Px(10);
}

// Names of the categories at the peak, largest first, as far as there is room.
void DrawCategories(const Frame& frame, const Box& plot, const MemoryPanel& panel) {
  Canvas& canvas = frame.canvas;
  const CategoryBytes& parts = panel.peaks[Index(StackedSide(panel))].parts;
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (parts[c] > 0) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&parts](std::size_t a, std::size_t b) { return parts[a] > parts[b]; });
  const float y = plot.y0 + canvas.Px(6);
  float x = DrawPeakText(frame, panel, {plot.x0 + canvas.Px(8), y});
  for (const std::size_t c : order) {
    const std::string name(Name(static_cast<Category>(c)));
    const std::string bytes = FormatBytes(parts[c]);
    const float width = canvas.WidthOf(canvas.fonts.small, name) +
                        canvas.WidthOf(canvas.fonts.mono_small, bytes) + canvas.Px(38);
    if (x + width > plot.x1) break;
    canvas.Fill({x, y + canvas.Px(2), x + canvas.Px(9), y + canvas.Px(11)},
                canvas.theme.categories[c], canvas.Px(2));
    x += canvas.Px(14);
    x += canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, name) + canvas.Px(6);
    x += canvas.Text(canvas.fonts.mono_small, {x, y + canvas.Px(1)}, canvas.theme.text, bytes) +
         canvas.Px(18);
  }
}

void DrawCapacity(const Frame& frame, const Box& plot, double top_bytes) {
  for (const SideModel& side : frame.model.sides) {
    if (!side.IsPresent() || !side.run->device_bytes.has_value()) continue;
    const std::int64_t bytes = *side.run->device_bytes;
    if (bytes <= 0 || static_cast<double>(bytes) > top_bytes) continue;
    const float y = std::round(YOf(plot, top_bytes, bytes));
    frame.canvas.DashedLine({plot.x0, y}, {plot.x1, y}, frame.canvas.theme.amber,
                            frame.canvas.Px(5));
    return;
  }
}

void DrawTitle(const Frame& frame, const MemoryPanel& panel) {
  Canvas& canvas = frame.canvas;
  const Box& box = frame.layout.memory;
  const float x = canvas.Px(14);
  canvas.Text(canvas.fonts.bold, {x, box.y0 + canvas.Px(6)}, canvas.theme.text, "memory");
  const std::string name = frame.state.memory_lane < frame.model.lanes.size()
                               ? frame.model.lanes[frame.state.memory_lane].name
                               : std::string();
  canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(25)}, canvas.theme.muted,
              fmt::format("{} {}", name, Name(panel.space)));
}

}  // namespace

MemoryPanel MakeMemoryPanel(const CompareModel& model, std::size_t lane) {
  MemoryPanel panel;
  if (lane >= model.lanes.size()) return panel;
  for (int space = 0; space < kSpaceCount; ++space) {
    panel.space = static_cast<Space>(space);
    bool any = false;
    for (const Side side : kSides) {
      if (!model.Of(side).IsPresent()) continue;
      const SideModel& of = model.Of(side);
      MemoryCurve& curve = panel.curves[Index(side)];
      curve =
          MemoryCurve(of.run->timeline, model.RankOn(side, model.lanes[lane].rank), panel.space);
      panel.peaks[Index(side)] =
          curve.PeakIn(static_cast<double>(of.step_start_ns), static_cast<double>(of.step_end_ns));
      any = any || !curve.empty();
    }
    if (any) return panel;
  }
  return {};
}

MemoryPicture MakeMemoryPicture(const CompareModel& model, const Layout& layout,
                                const Viewport& viewport, const MemoryPanel& panel,
                                const Theme& theme) {
  MemoryPicture picture;
  if (layout.memory.IsEmpty() || layout.Columns() == 0) return picture;
  const int height = static_cast<int>(layout.memory.Height());
  std::int64_t highest = 0;
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    for (const MemoryLevel& level : panel.curves[Index(side)].levels()) {
      highest = std::max(highest, level.total_bytes);
    }
  }
  picture.top_bytes = std::max(1.0, kHeadroom * static_cast<double>(highest));
  picture.image.Resize(layout.Columns(), height);
  if (!model.Of(StackedSide(panel)).IsPresent()) return picture;
  const std::vector<MemoryColumn> columns =
      ColumnsOf(model, layout, viewport, panel, StackedSide(panel));
  const bool predicted = StackedSide(panel) == Side::kPredicted;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::int64_t sum = 0;
    int bottom = height;
    for (std::size_t part = 0; part < kCategoryCount; ++part) {
      sum += columns[c].most.parts[part];
      const double share = static_cast<double>(sum) / picture.top_bytes;
      const int top = height - static_cast<int>(std::lround(share * height));
      const Colour colour = theme.categories[part];
      picture.image.Fill(static_cast<int>(c), top, bottom,
                         predicted ? Mixed(theme.ground, colour, 0.5F) : colour);
      bottom = std::min(bottom, top);
    }
  }
  return picture;
}

void DrawMemory(const Frame& frame, const MemoryPanel& panel, const MemoryPicture& picture,
                void* texture) {
  const Box& box = frame.layout.memory;
  if (box.IsEmpty() || picture.top_bytes <= 0.0) return;
  Canvas& canvas = frame.canvas;
  const Box plot = frame.PlotOf(box);
  DrawTitle(frame, panel);
  const int ticks = std::max(1, static_cast<int>(box.Height() / canvas.Px(18)));
  for (const Tick& tick : ByteTicks(static_cast<std::int64_t>(picture.top_bytes), ticks)) {
    const float y = std::round(YOf(plot, picture.top_bytes, static_cast<std::int64_t>(tick.value)));
    canvas.Fill({plot.x0, y, plot.x1, y + 1.0F}, canvas.theme.grid);
    // The title lies at the top of the gutter.
    if (y < box.y0 + canvas.Px(46) || y > box.y1 - canvas.Px(6)) continue;
    canvas.TextIn(canvas.fonts.mono_small,
                  {canvas.Px(8), y - canvas.Px(8), plot.x0 - canvas.Px(6), y + canvas.Px(8)},
                  Align::kRight, canvas.theme.faint, tick.label);
  }
  canvas.PushClip(plot);
  canvas.Picture(texture, plot);
  if (StackedSide(panel) == Side::kMeasured) {
    DrawForecast(frame, plot, panel, picture.top_bytes);
  }
  DrawCapacity(frame, plot, picture.top_bytes);
  DrawCategories(frame, plot, panel);
  for (const Side side : kSides) DrawPeak(frame, plot, panel, side, picture.top_bytes);
  canvas.PopClip();
}

}  // namespace foretrain::ui

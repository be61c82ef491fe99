// Draws the memory panel of the compare view: one rank's memory along the lanes' time axis.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/panels/memory_plot.h"
#include "ui/view/panels/panels.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr double kHeadroom = 1.28;  // room above the highest curve for the names of categories

// The panel shares the time axis of the lanes, so its plot has their left and right edges.
MemoryPlot PlotOf(const CompareModel& model, const Layout& layout, const Viewport& viewport,
                  const MemoryPanel& panel, double top_bytes) {
  return {model,
          panel,
          viewport,
          {layout.plot_x0, layout.memory.y0, layout.plot_x1, layout.memory.y1},
          top_bytes};
}

// "measured peak 10.6 GiB  predicted peak 10.5 GiB"; returns the x of its end.
float DrawPeakText(const Frame& frame, const MemoryPanel& panel, Point at) {
  Canvas& canvas = frame.canvas;
  const std::vector<std::string> peaks = BytesApart(
      std::array<std::int64_t, 2>{panel.peaks[0].total_bytes, panel.peaks[1].total_bytes});
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (panel.curves[Index(side)].empty()) continue;
    const std::string name = fmt::format("{} peak", frame.model.NameOf(side));
    at.x += canvas.Text(canvas.fonts.small, at, canvas.theme.muted, name) + canvas.Px(6);
    at.x += canvas.Text(canvas.fonts.mono_small, {at.x, at.y + canvas.Px(1)}, canvas.theme.text,
                        peaks[Index(side)]) +
            canvas.Px(18);
  }
  return at.x + canvas.Px(10);
}

// Names of the categories at the peak, largest first, as many as fit.
void DrawCategories(const Frame& frame, const Box& plot, const MemoryPanel& panel) {
  Canvas& canvas = frame.canvas;
  const CategoryBytes& parts = panel.peaks[Index(panel.Stacked())].parts;
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (parts[c] > 0) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&parts](std::size_t a, std::size_t b) { return parts[a] > parts[b]; });
  const float y = plot.y0 + canvas.Px(6);
  float x = DrawPeakText(frame, panel, {plot.x0 + canvas.Px(8), y});
  for (const std::size_t c : order) {
    const std::string name = InWords(Name(static_cast<Category>(c)));
    const std::string bytes = FormatBytes(parts[c]);
    const float width = canvas.WidthOf(canvas.fonts.small, name) +
                        canvas.WidthOf(canvas.fonts.mono_small, bytes) + canvas.Px(38);
    if (x + width > plot.x1) break;
    DrawCategorySwatch(canvas, static_cast<Category>(c),
                       {x, y + canvas.Px(2), x + canvas.Px(9), y + canvas.Px(11)});
    x += canvas.Px(14);
    x += canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, name) + canvas.Px(6);
    x += canvas.Text(canvas.fonts.mono_small, {x, y + canvas.Px(1)}, canvas.theme.text, bytes) +
         canvas.Px(18);
  }
}

// Name of the panel with lane and memory space, in the gutter.
void DrawTitle(const Frame& frame, const MemoryPanel& panel) {
  Canvas& canvas = frame.canvas;
  const Box& box = frame.layout.memory;
  const float x = box.x0 + canvas.Px(14);
  canvas.Text(canvas.fonts.bold, {x, box.y0 + canvas.Px(6)}, canvas.theme.text, "memory");
  const std::string name = frame.state.memory_lane < frame.model.lanes.size()
                               ? frame.model.lanes[frame.state.memory_lane].name
                               : std::string();
  canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(25)}, canvas.theme.muted,
              fmt::format("{} {}", name, Name(panel.space)));
}

}  // namespace

// The scale covers the whole run and not just the visible part, so that it does not jump while
// panning.
MemoryPicture MakeMemoryPicture(const CompareModel& model, const Layout& layout,
                                const Viewport& viewport, const MemoryPanel& panel,
                                const Theme& theme) {
  MemoryPicture picture;
  if (layout.memory.IsEmpty() || layout.Columns() == 0) return picture;
  picture.top_bytes = std::max(1.0, kHeadroom * static_cast<double>(panel.Highest()));
  picture.image = StackedAreas(PlotOf(model, layout, viewport, panel, picture.top_bytes), theme);
  return picture;
}

// From the bottom: grid, stacked areas, forecast line, capacity, names, peaks.
void DrawMemory(const Frame& frame, const MemoryPanel& panel, const MemoryPicture& areas,
                const Picture& picture) {
  const Box& box = frame.layout.memory;
  if (box.IsEmpty() || areas.top_bytes <= 0.0) return;
  Canvas& canvas = frame.canvas;
  const MemoryPlot plot =
      PlotOf(frame.model, frame.layout, frame.state.viewport, panel, areas.top_bytes);
  DrawTitle(frame, panel);
  // Labels start below the title.
  DrawByteGrid(canvas, plot, canvas.Px(18), box.y0 + canvas.Px(46));
  canvas.PushClip(plot.box);
  canvas.Show(picture, plot.box);
  DrawForecastLine(canvas, plot);
  // One line: the first run that knows its device's memory.
  for (const SideModel& side : frame.model.sides) {
    if (!side.IsPresent() || side.run->device_bytes.value_or(0) <= 0) continue;
    DrawCapacity(canvas, plot, *side.run->device_bytes);
    break;
  }
  DrawCategories(frame, plot.box, panel);
  DrawPeaks(canvas, plot);
  canvas.PopClip();
}

}  // namespace foretrain::ui

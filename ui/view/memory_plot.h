// A rank's memory over time, for any view: one run's bytes stacked by category, the forecast as a
// line over what was measured. Leaves out titles and lists.
#pragma once

#include "ui/view/canvas.h"
#include "ui/view_model/memory_model.h"
#include "ui/view_model/viewport.h"

namespace foretrain::ui {

// Where a panel is plotted: a stretch of displayed time over a box that starts at 0 bytes below.
struct MemoryPlot {
  const SidePair& sides;
  const MemoryPanel& panel;
  Viewport viewport{};
  Box box{};
  double top_bytes = 1.0;  // > 0, at the upper edge

  int Columns() const { return box.Width() > 0 ? static_cast<int>(box.Width()) : 0; }
  float X(double displayed_ns) const;  // far outside the box where it is far outside the view
  float Y(double bytes) const;
};

// The stacked areas, one pixel a pixel of the box. A forecast alone is tinted.
Image StackedAreas(const MemoryPlot& plot, const Theme& theme);

// Lines at round numbers of bytes with labels left of the box, `gap` pixels between two at least.
// Labels above `labels_from` are left out.
void DrawByteGrid(Canvas& canvas, const MemoryPlot& plot, float gap, float labels_from);

// Over the areas: the forecast's line, where the areas are measured, and both peaks.
void DrawForecastLine(Canvas& canvas, const MemoryPlot& plot);
void DrawPeaks(Canvas& canvas, const MemoryPlot& plot);

// A dashed line where the device is full, where that lies in the box.
void DrawCapacity(Canvas& canvas, const MemoryPlot& plot, std::int64_t capacity_bytes);

// A box in the colour of a category.
void DrawCategorySwatch(Canvas& canvas, Category category, const Box& box);

}  // namespace foretrain::ui

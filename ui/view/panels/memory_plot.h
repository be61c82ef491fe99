// Plots a rank's memory over time for any view: one run's bytes stacked by category, and the
// forecast as a line over the measurement. Leaves out titles and lists.
#pragma once

#include "ui/view/widgets/canvas.h"
#include "ui/view_model/panels/memory_model.h"
#include "ui/view_model/timeline/viewport.h"

namespace foretrain::ui {

// A panel and its plot: displayed time across the box, bytes upwards from 0.
struct MemoryPlot {
  const SidePair& sides;
  const MemoryPanel& panel;
  Viewport viewport{};
  Box box{};
  double top_bytes = 1.0;  // bytes at the upper edge, > 0

  int Columns() const { return box.Width() > 0 ? static_cast<int>(box.Width()) : 0; }
  float X(double displayed_ns) const;  // clamped far outside the box
  float Y(double bytes) const;
};

// The stacked areas, one image pixel per pixel of the box. If only a forecast is shown, it is
// tinted.
Image StackedAreas(const MemoryPlot& plot, const Theme& theme);

// Lines at round numbers of bytes, at least `gap` pixels apart, with labels left of the box. Labels
// above y = `labels_from` are left out.
void DrawByteGrid(Canvas& canvas, const MemoryPlot& plot, float gap, float labels_from);

// Drawn over the areas: the forecast's line if the areas are measured, and both peaks.
void DrawForecastLine(Canvas& canvas, const MemoryPlot& plot);
void DrawPeaks(Canvas& canvas, const MemoryPlot& plot);

// A dashed line at the device's capacity, if it lies in the box.
void DrawCapacity(Canvas& canvas, const MemoryPlot& plot, std::int64_t capacity_bytes);

// A box in the colour of a category.
void DrawCategorySwatch(Canvas& canvas, Category category, const Box& box);

}  // namespace foretrain::ui

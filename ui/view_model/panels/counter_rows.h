// Graphs of GPU counters beneath the lanes: which are shown, their scale, their pixels and their
// tooltip. Leaves out where they lie (layout.h) and drawing.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ui/view_model/timeline/hover.h"
#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

// The counters of `rank` that have a row: the main series that are above 0 at any time. They point
// into run.gpu_counters. O(counters of the run).
std::vector<const GpuCounter*> CountersOf(const RunView& run, int rank);

// The value at the upper edge of a graph: 1 for shares, else the highest of the run, so that the
// scale does not jump while panning.
double TopOf(const GpuCounter& counter);

// The values in one column of pixels.
struct CounterColumn {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool IsEmpty() const { return low > high; }
};

// One entry for each of `columns` in [start_ns, end_ns), own time of the run; empty where no
// reading holds. O(columns + readings inside).
std::vector<CounterColumn> FoldCounter(const GpuCounter& counter, double start_ns, double end_ns,
                                       int columns);

// Name, value and length of the reading under a point; `nullopt` outside the graphs.
std::optional<HoverText> HoverOfCounter(const CompareModel& model, const Layout& layout,
                                        const Viewport& viewport, float x, float y);

}  // namespace foretrain::ui

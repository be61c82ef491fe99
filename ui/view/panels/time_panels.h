// The panels of the time view: parts of the step as bars, the waterfall from forecast to
// measurement, waits as a table, durations of ops as a histogram. Functions that return a HoverText
// return that of the part under the mouse; `nullopt` if there is none.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ui/view/screens/screen.h"
#include "ui/view_model/panels/op_groups.h"
#include "ui/view_model/panels/time_parts.h"
#include "ui/view_model/panels/wait_rows.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {

// Colour of a part in stacked bars.
Colour ColourOf(const Theme& theme, TimePart part);

// A bar for each run from 0 to its step time, on one scale.
std::optional<HoverText> DrawStacks(const ScreenFrame& frame, const Box& box,
                                    const std::array<std::optional<StepParts>, 2>& parts,
                                    const SideNames& names);
float StacksHeight(const Canvas& canvas, const std::array<std::optional<StepParts>, 2>& parts);

// One row a bar: name, bar on an axis of the step's time, difference. If the rows do not fit, the
// smallest neighbours share a row, so that the bars still lead from forecast to measurement.
std::optional<HoverText> DrawWaterfall(const ScreenFrame& frame, const Box& box,
                                       const Waterfall& fall, const SideNames& names);

// For one run without a counterpart: one row a part, with its time and share.
std::optional<HoverText> DrawBreakdown(const ScreenFrame& frame, const Box& box,
                                       const StepParts& parts);
float RowsHeight(const Canvas& canvas, std::size_t rows);

// `fall` in at most `max` bars (> 0): the smallest neighbours are joined.
std::vector<WaterfallBar> FewerBars(const Waterfall& fall, std::size_t max);

// A table of waits from `y` down to the end of `box`: a heading, a column for each run that has
// times, and their difference. Moves `y` to the end of the table.
std::optional<HoverText> DrawWaits(const ScreenFrame& frame, const Box& box,
                                   const std::string& title, const std::string& remark,
                                   const std::vector<WaitRow>& rows, const SideNames& names,
                                   float& y);

// Number of bins that suits the width of the box.
int HistogramBins(const Canvas& canvas, const Box& box);

// The durations of single ops: measured bars filled, predicted bars outlined, both medians above.
void DrawHistogram(Canvas& canvas, const Box& box, const Histogram& histogram,
                   const SideNames& names);

}  // namespace foretrain::ui

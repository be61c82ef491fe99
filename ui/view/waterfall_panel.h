// Where a step's time goes: each run's parts side by side in one bar, and under them the way from
// the predicted to the measured step. Leaves out single ops.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ui/view/screen.h"
#include "ui/view_model/hover.h"
#include "ui/view_model/time_parts.h"

namespace foretrain::ui {

// Of a part in stacked bars.
Colour ColourOf(const Theme& theme, TimePart part);

// A bar for each run from 0 to its step time, on one scale. Returns what lies under the mouse.
std::optional<HoverText> DrawStacks(const ScreenFrame& frame, const Box& box,
                                    const std::array<std::optional<StepParts>, 2>& parts);
float StacksHeight(const Canvas& canvas, const std::array<std::optional<StepParts>, 2>& parts);

// A row a bar: name, bar on an axis of the step's time, difference. Where rows do not fit, the
// smallest differences are drawn as one row, so that the rest still leads from end to end.
std::optional<HoverText> DrawWaterfall(const ScreenFrame& frame, const Box& box,
                                       const Waterfall& fall);

// Of one run alone: a row a part with its time and share.
std::optional<HoverText> DrawBreakdown(const ScreenFrame& frame, const Box& box,
                                       const StepParts& parts);
float RowsHeight(const Canvas& canvas, std::size_t rows);

// `fall` in at most `most` bars (> 0): the smallest neighbours together.
std::vector<WaterfallBar> FewerBars(const Waterfall& fall, std::size_t most);

}  // namespace foretrain::ui

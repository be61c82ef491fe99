// How the durations of single ops spread, forecast and measured over one another. Leaves out how
// they are counted (ui/view_model/op_groups.h).
#pragma once

#include "ui/view/canvas.h"
#include "ui/view_model/op_groups.h"

namespace foretrain::ui {

// As many bins as look well in the box.
int HistogramBins(const Canvas& canvas, const Box& box);

// Measured bars filled, predicted ones outlined; both medians above.
void DrawHistogram(Canvas& canvas, const Box& box, const Histogram& histogram);

}  // namespace foretrain::ui

// The inputs that every panel gets to draw one frame.
#pragma once

#include <algorithm>

#include "ui/view/widgets/canvas.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/runs/search.h"
#include "ui/view_model/timeline/interaction.h"
#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

struct Frame {
  const CompareModel& model;
  const Layout& layout;
  const ViewState& state;
  Canvas& canvas;
  const OpFilter* filter = nullptr;  // other ops are drawn paler

  // The x of a displayed time; clamped far outside the screen.
  float X(double displayed_ns) const {
    const double x = state.viewport.ToX(displayed_ns, layout.plot_x1 - layout.plot_x0);
    return layout.plot_x0 + static_cast<float>(std::clamp(x, -1e5, 1e5));
  }
  Box PlotOf(const Box& panel) const {
    return {layout.plot_x0, panel.y0, layout.plot_x1, panel.y1};
  }
};

}  // namespace foretrain::ui

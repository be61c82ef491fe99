// What every panel is given to draw one frame.
#pragma once

#include <algorithm>

#include "ui/view/canvas.h"
#include "ui/view_model/compare_model.h"
#include "ui/view_model/interaction.h"
#include "ui/view_model/layout.h"
#include "ui/view_model/search.h"

namespace foretrain::ui {

struct Frame {
  const CompareModel& model;
  const Layout& layout;
  const ViewState& state;
  Canvas& canvas;
  const OpFilter* filter = nullptr;  // others than these ops step back

  // Where a displayed time lies; far outside the screen where it is far outside the view.
  float X(double displayed_ns) const {
    const double x = state.viewport.ToX(displayed_ns, layout.plot_x1 - layout.plot_x0);
    return layout.plot_x0 + static_cast<float>(std::clamp(x, -1e5, 1e5));
  }
  Box PlotOf(const Box& panel) const {
    return {layout.plot_x0, panel.y0, layout.plot_x1, panel.y1};
  }
};

}  // namespace foretrain::ui

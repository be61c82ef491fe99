// Paints the curves of the drift plot. ui/view/panels/drift_panel.cc draws names and labels.
#pragma once

#include <cstddef>
#include <vector>

#include "ui/view/widgets/canvas.h"
#include "ui/view/widgets/theme.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

// Maximum labels of the vertical axis.
inline constexpr int kMaxDriftTicks = 4;

struct DriftCurve {
  std::size_t lane = 0;
  Colour colour{};
  bool named = false;  // has its own colour and is drawn above the others
};

struct DriftPicture {
  Image image{};                     // of DriftPlot with the grid
  std::vector<DriftCurve> curves{};  // pixels of DriftPlot, grid included
  double low_ns = 0.0;               // at the bottom of the plot
  double high_ns = 0.0;              // at the top
};

// The area of the curves, below the row of names.
Box DriftPlot(const Layout& layout);

// y of a drift within DriftPlot.
float DriftY(const DriftPicture& picture, const Box& plot, double drift_ns);

// The curves of all lanes that have drift; the lanes that end farthest off are named.
DriftPicture MakeDriftPicture(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme);

}  // namespace foretrain::ui

// The curves of the drift plot, painted for a frame. Leaves out names and labels
// (ui/view/drift_panel.cc).
#pragma once

#include <cstddef>
#include <vector>

#include "ui/view/canvas.h"
#include "ui/view/theme.h"
#include "ui/view_model/compare_model.h"
#include "ui/view_model/layout.h"

namespace foretrain::ui {

// Labels of the upright axis.
inline constexpr int kMostDriftTicks = 4;

struct DriftCurve {
  std::size_t lane = 0;
  Colour colour{};
  bool named = false;  // in a colour of its own, above the others
};

struct DriftPicture {
  Image image{};  // of DriftPlot with the grid
  std::vector<DriftCurve> curves{};
  double low_ns = 0.0;   // at the bottom of the plot
  double high_ns = 0.0;  // at its top
};

// Where curves lie, below the row of names.
Box DriftPlot(const Layout& layout);

// The y of a drift in DriftPlot.
float DriftY(const DriftPicture& picture, const Box& plot, double drift_ns);

// All lanes that have drift; the farthest ones are named.
DriftPicture MakeDriftPicture(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme);

}  // namespace foretrain::ui

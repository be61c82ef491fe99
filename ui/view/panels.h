// The panels of the compare view, each drawn into its box of the layout.
#pragma once

#include <optional>
#include <string>

#include "ui/view/drift_picture.h"
#include "ui/view/frame.h"
#include "ui/view/lane_pictures.h"
#include "ui/view_model/critical_path.h"
#include "ui/view_model/hover.h"
#include "ui/view_model/memory_model.h"

namespace foretrain::ui {

// The stacked areas of `panel` in the plot of `box`, and the bytes at its top.
struct MemoryPicture {
  Image image{};
  double top_bytes = 0.0;
};
MemoryPicture MakeMemoryPicture(const CompareModel& model, const Layout& layout,
                                const Viewport& viewport, const MemoryPanel& panel,
                                const Theme& theme);

void DrawAxis(const Frame& frame);
void DrawLanes(const Frame& frame, const LanePictures& pictures, const Picture& picture);
// Waits between slots, named by their cause where there is room.
void DrawBubbles(const Frame& frame);
void DrawPath(const Frame& frame, const CriticalPath& path);
// "measured critical path 6.1 s: compute 92 %, ..."
std::string DescribePath(const CriticalPath& path);
// A sheet over the lanes on the selected span.
void DrawDetails(const Frame& frame);
void DrawDrift(const Frame& frame, const DriftPicture& drift, const Picture& picture);
void DrawMemory(const Frame& frame, const MemoryPanel& panel, const MemoryPicture& areas,
                const Picture& picture);
void DrawLegend(const Frame& frame);

// Lines across all panels: ticks behind them; step ends, the mouse and the measure above.
void DrawGrid(const Frame& frame);
void DrawStepEnds(const Frame& frame);
void DrawCursor(const Frame& frame, float mouse_x, float mouse_y);

}  // namespace foretrain::ui

// The panels of the compare view, each drawn into its box of the layout.
#pragma once

#include <string>

#include "ui/view/desktop/frame.h"
#include "ui/view/lanes/drift_picture.h"
#include "ui/view/lanes/lane_pictures.h"
#include "ui/view_model/panels/memory_model.h"
#include "ui/view_model/timeline/critical_path.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {

// Image of the stacked areas, and the bytes at its upper edge.
struct MemoryPicture {
  Image image{};
  double top_bytes = 0.0;
};
MemoryPicture MakeMemoryPicture(const CompareModel& model, const Layout& layout,
                                const Viewport& viewport, const MemoryPanel& panel,
                                const Theme& theme);

void DrawAxis(const Frame& frame);
void DrawLanes(const Frame& frame, const LanePictures& pictures, const Picture& picture);
// Names waits between slots by their cause if there is room.
void DrawBubbles(const Frame& frame);
void DrawPath(const Frame& frame, const CriticalPath& path);
// "measured critical path 6.1 s: compute 92 %, ..."
std::string DescribePath(const CriticalPath& path, const SideNames& names);
void DrawDrift(const Frame& frame, const DriftPicture& drift, const Picture& picture);
void DrawMemory(const Frame& frame, const MemoryPanel& panel, const MemoryPicture& areas,
                const Picture& picture);
void DrawLegend(const Frame& frame);

// Lines across all panels: ticks behind them; step ends, the cursor and the measured range above.
void DrawGrid(const Frame& frame);
void DrawStepEnds(const Frame& frame);
void DrawCursor(const Frame& frame, float mouse_x, float mouse_y);

}  // namespace foretrain::ui

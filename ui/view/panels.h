// The panels of the compare view, each drawn into its box of the layout.
#pragma once

#include <optional>

#include "ui/view/frame.h"
#include "ui/view/lane_pictures.h"
#include "ui/view_model/hover.h"
#include "ui/view_model/memory_curve.h"

namespace foretrain::ui {

// What the memory panel shows: one rank's curves in one space.
struct MemoryPanel {
  Space space = Space::kDevice;
  std::array<MemoryCurve, 2> curves{};  // [side]; empty where a run has none
  std::array<MemoryLevel, 2> peaks{};   // in the chosen step, with the moment of each
};

// Of lane `lane`: the device, or where nothing is known of it the first space that has samples.
MemoryPanel MakeMemoryPanel(const CompareModel& model, std::size_t lane);

// The stacked areas of `panel` in the plot of `box`, and the bytes at its top.
struct MemoryPicture {
  Image image{};
  double top_bytes = 0.0;
};
MemoryPicture MakeMemoryPicture(const CompareModel& model, const Layout& layout,
                                const Viewport& viewport, const MemoryPanel& panel,
                                const Theme& theme);

void DrawHeader(const Frame& frame);
void DrawNumbers(const Frame& frame);
void DrawNotices(const Frame& frame);
void DrawAxis(const Frame& frame);
void DrawLanes(const Frame& frame, const LanePictures& pictures, void* texture);
void DrawDrift(const Frame& frame);
void DrawMemory(const Frame& frame, const MemoryPanel& panel, const MemoryPicture& picture,
                void* texture);
void DrawLegend(const Frame& frame);

// Lines across all panels: ticks behind them; step ends, the mouse and the measure above.
void DrawGrid(const Frame& frame);
void DrawStepEnds(const Frame& frame);
void DrawCursor(const Frame& frame, float mouse_x, float mouse_y);

void DrawTooltip(const Frame& frame, const HoverText& text, float mouse_x, float mouse_y);
void DrawHelp(const Frame& frame);

}  // namespace foretrain::ui

// Small parts that several screens draw with shapes: a row of choices, a title, a sentence in an
// empty place, the tooltip over everything. Leaves out Dear ImGui's own controls (widgets.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view/screen.h"
#include "ui/view_model/hover.h"

namespace foretrain::ui {

// Choices side by side from `at` on, the chosen one filled; a click changes `chosen`. Returns where
// it ends. Each is a widget of the record.
float Segments(const ScreenFrame& frame, Point at, const std::vector<std::string>& names,
               int* chosen);
// How wide and how high they are.
float SegmentsWidth(const Canvas& canvas, const std::vector<std::string>& names);
float SegmentsHeight(const Canvas& canvas);

// A heading and, behind it, a remark. Returns where it ends.
float Heading(Canvas& canvas, Point at, std::string_view title, std::string_view remark = {});

// In the middle of the box, for a place where there is nothing to draw: at most as wide as it.
void DrawEmpty(Canvas& canvas, const Box& box, std::string_view text);

// `text` cut to `width` with three dots.
std::string Shortened(const Canvas& canvas, ImFont* font, std::string_view text, float width);

// Beside the mouse, inside `window`.
void DrawTooltip(Canvas& canvas, const Box& window, const HoverText& text, Point mouse);
// The same above widgets too.
void DrawTooltipOnTop(const ScreenFrame& frame, const HoverText& text);

// Red for more than forecast, blue for less.
Colour ToneColour(const Theme& theme, Tone tone);
Tone ToneOf(double difference);

}  // namespace foretrain::ui

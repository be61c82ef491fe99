// Small parts that several screens draw as shapes: a row of choices, a heading, a sentence in an
// empty area, tooltips. Dear ImGui's own controls are in widgets.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view/screens/screen.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {

// Draws choices in a row from `at` on, the chosen one filled; a click changes `chosen`. Each choice
// is a widget of the record. Returns the x of the end.
float Segments(const ScreenFrame& frame, Point at, const std::vector<std::string>& names,
               int* chosen);
// Size of the row of choices.
float SegmentsWidth(const Canvas& canvas, const std::vector<std::string>& names);
float SegmentsHeight(const Canvas& canvas);

// A heading followed by a remark. Returns the x of the end.
float Heading(Canvas& canvas, Point at, std::string_view title, std::string_view remark = {});

// A sentence in the middle of an empty box, shortened to its width.
void DrawEmpty(Canvas& canvas, const Box& box, std::string_view text);

// `text` cut to `width`, with three dots if it was cut.
std::string Shortened(const Canvas& canvas, ImFont* font, std::string_view text, float width);

// `text` in lines of at most `width`, broken at spaces; a longer word is cut with three dots.
std::vector<std::string> Wrapped(ImFont* font, std::string_view text, float width);

// Draws a tooltip next to the mouse, inside `window`.
void DrawTooltip(Canvas& canvas, const Box& window, const HoverText& text, Point mouse);
// The same, also above widgets.
void DrawTooltipOnTop(const ScreenFrame& frame, const HoverText& text);

// Red for worse, blue for better.
Colour ToneColour(const Theme& theme, Tone tone);
// For a time or size, where more is worse.
Tone ToneOf(double difference);

}  // namespace foretrain::ui

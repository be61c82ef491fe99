// The parts of the desktop around a screen, each drawn into its box.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view/canvas.h"
#include "ui/view/desktop_state.h"
#include "ui/view/screen.h"

namespace foretrain::ui {

struct RailItem {
  Box box{};
  std::string icon{};  // UTF-8, a letter where the icons' font is missing
  std::string_view title{};
  bool chosen = false;
  bool hovered = false;
};

void DrawRail(Canvas& canvas, const Box& box, const std::vector<RailItem>& items);

// Which runs are shown, and `chips` at the right, before the button `help`.
void DrawTopBar(Canvas& canvas, const Box& box, const Box& help, const DesktopState& state,
                const std::vector<std::string>& chips);

// The numbers that matter; those on their quality are the status line's.
void DrawStrip(Canvas& canvas, const Box& box, const std::vector<Number>& numbers);

// One line each.
void DrawNotices(Canvas& canvas, const Box& box, const std::vector<std::string>& notices);

// What is loaded, as a button in `store`, and how far its numbers can be trusted, doubts first.
void DrawStatus(Canvas& canvas, const Box& box, const Box& store, const DesktopState& state);

void DrawHelpSheet(Canvas& canvas, const Box& window, const std::vector<HelpLine>& lines);

}  // namespace foretrain::ui

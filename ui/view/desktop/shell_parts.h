// The parts of the desktop around a screen, each drawn into its box.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"
#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

struct RailItem {
  Box box{};
  std::string icon{};  // UTF-8; a letter if the icons' font is missing
  std::string_view title{};
  bool chosen = false;
  bool hovered = false;
};

void DrawRail(Canvas& canvas, const Box& box, const std::vector<RailItem>& items);

// The runs that are shown; at the right `chips`, then the button `help`.
void DrawTopBar(Canvas& canvas, const Box& box, const Box& help, const DesktopState& state,
                const std::vector<std::string>& chips);

// The main numbers of the runs. Numbers on the recording's quality are in the status line. While
// `mouse` is over a number that the glossary defines, its definition is shown.
void DrawStrip(Canvas& canvas, const Box& box, const std::vector<Number>& numbers, Point mouse);

// Width that a line of a notice does without, in pixels.
float NoticeMargins(float scale);
// One line each.
void DrawNotices(Canvas& canvas, const Box& box, const std::vector<std::string>& notices);

// The open store, as a button in `store`, and the numbers on the recording's quality, doubts first.
void DrawStatus(Canvas& canvas, const Box& box, const Box& store, const DesktopState& state);

void DrawHelpCard(Canvas& canvas, const Box& window, const std::vector<HelpLine>& lines);

}  // namespace foretrain::ui

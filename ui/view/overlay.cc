// The tooltip and the help sheet.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "ui/view/panels.h"

namespace foretrain::ui {
namespace {

constexpr float kPad = 12.0F;
constexpr float kLine = 18.0F;
constexpr float kNameColumn = 108.0F;

Colour ColourOf(const Theme& theme, Tone tone) {
  switch (tone) {
    case Tone::kMore:
      return theme.more;
    case Tone::kLess:
      return theme.less;
    case Tone::kAmber:
      return theme.amber;
    case Tone::kPlain:
      break;
  }
  return theme.text;
}

void DrawSheet(Canvas& canvas, const Box& box) {
  canvas.Fill(
      {box.x0 + canvas.Px(3), box.y0 + canvas.Px(4), box.x1 + canvas.Px(3), box.y1 + canvas.Px(4)},
      0x60000000U, canvas.Px(6));
  canvas.Fill(box, canvas.theme.panel, canvas.Px(6));
  canvas.Outline(box, canvas.theme.line, canvas.scale, canvas.Px(6));
}

using HelpLine = std::pair<std::string_view, std::string_view>;
constexpr std::array<HelpLine, 19> kHelp{{
    {"wheel", "zoom at the mouse"},
    {"ctrl + wheel", "scroll the ranks"},
    {"drag", "move in time, and up and down"},
    {"double click", "zoom to a span"},
    {"click", "select a span; choose whose memory is shown"},
    {"shift + drag", "measure a stretch of time"},
    {"W S A D", "zoom in and out, move"},
    {"F", "fit the whole step"},
    {"M", "jump between a span and its twin in the other run"},
    {"]  [", "next and previous worst error"},
    {".  ,", "next and previous step"},
    {"G", "align at step start or by wall clock"},
    {"Q", "one row for each queue"},
    {"U", "back to the view before"},
    {"T", "dark or light"},
    {"Esc", "clear selection and measure"},
    {"? or H", "this sheet"},
    {"thin strip", "predicted; the tall one below it is measured"},
    {"line under them", "red: slower than forecast; blue: faster; grey: no twin"},
}};

}  // namespace

void DrawTooltip(const Frame& frame, const HoverText& text, float mouse_x, float mouse_y) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  float width = std::max(canvas.WidthOf(canvas.fonts.bold, text.title),
                         canvas.WidthOf(canvas.fonts.small, text.subtitle));
  for (const HoverLine& line : text.lines) {
    width = std::max(width,
                     canvas.Px(kNameColumn) + canvas.WidthOf(canvas.fonts.mono_small, line.value));
  }
  const float pad = canvas.Px(kPad);
  const float height = canvas.Px(44) + static_cast<float>(text.lines.size()) * canvas.Px(kLine);
  Box box{mouse_x + canvas.Px(16), mouse_y + canvas.Px(18), 0.0F, 0.0F};
  const Box& window = frame.layout.window;
  if (box.x0 + width + 2 * pad > window.x1) box.x0 = mouse_x - canvas.Px(12) - width - 2 * pad;
  box.x0 = std::max(canvas.Px(4), box.x0);
  box.y0 = std::max(canvas.Px(4), std::min(box.y0, window.y1 - height - 2 * pad));
  box.x1 = box.x0 + width + 2 * pad;
  box.y1 = box.y0 + height + 1.5F * pad;
  DrawSheet(canvas, box);
  const float x = box.x0 + pad;
  float y = box.y0 + pad;
  canvas.Text(canvas.fonts.bold, {x, y}, theme.text, text.title);
  y += canvas.Px(20);
  canvas.Text(canvas.fonts.small, {x, y}, theme.muted, text.subtitle);
  y += canvas.Px(24);
  canvas.record.tooltip = {text.title, text.subtitle};
  for (const HoverLine& line : text.lines) {
    canvas.Text(canvas.fonts.small, {x, y}, theme.muted, line.name);
    canvas.Text(canvas.fonts.mono_small, {x + canvas.Px(kNameColumn), y + canvas.Px(1)},
                ColourOf(theme, line.tone), line.value);
    canvas.record.tooltip.push_back(line.name + ": " + line.value);
    y += canvas.Px(kLine);
  }
}

void DrawHelp(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Box& window = frame.layout.window;
  canvas.Fill(window, Faded(canvas.theme.ground, 0.72F));
  const float width = canvas.Px(520);
  const float line = canvas.Px(23);
  const float height = canvas.Px(64) + static_cast<float>(kHelp.size()) * line;
  const float x0 = std::round((window.Width() - width) / 2);
  const float y0 = std::max(0.0F, std::round((window.Height() - height) / 2));
  DrawSheet(canvas, {x0, y0, x0 + width, y0 + height});
  const float x = x0 + canvas.Px(24);
  float y = y0 + canvas.Px(18);
  canvas.Text(canvas.fonts.bold, {x, y}, canvas.theme.text, "Keys and mouse");
  y += canvas.Px(32);
  for (const auto& [keys, what] : kHelp) {
    canvas.Text(canvas.fonts.mono, {x, y}, canvas.theme.text, keys);
    canvas.Text(canvas.fonts.text, {x + canvas.Px(140), y - canvas.Px(1)}, canvas.theme.muted,
                what);
    y += line;
  }
}

}  // namespace foretrain::ui

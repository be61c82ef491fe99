#include "ui/view/lanes/segments.h"

#include <imgui.h>

#include <algorithm>

namespace foretrain::ui {
namespace {

constexpr float kPad = 12.0F;
constexpr float kLine = 18.0F;
constexpr float kNameColumn = 108.0F;
constexpr float kSegmentPad = 10.0F;
constexpr float kSegmentHeight = 22.0F;

float SegmentWidth(const Canvas& canvas, const std::string& name) {
  return canvas.WidthOf(canvas.fonts.small, name) + 2 * canvas.Px(kSegmentPad);
}

// Start of the last whole character within the first `bytes` bytes of UTF-8 text.
std::size_t WholeCharacters(std::string_view text, std::size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return bytes;
}

float WidthOf(ImFont* font, std::string_view text) {
  return font->CalcTextSizeA(font->FontSize, 1e9F, 0.0F, text.data(), text.data() + text.size()).x;
}

// Bisects over the length in bytes; widths grow with the length, so O(log n) measurements are
// enough.
std::string CutTo(ImFont* font, std::string_view text, float width) {
  if (WidthOf(font, text) <= width) return std::string(text);
  std::size_t low = 0, high = text.size();
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    const std::string cut = std::string(text.substr(0, WholeCharacters(text, middle))) + "...";
    if (WidthOf(font, cut) <= width) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::size_t whole = low < text.size() ? WholeCharacters(text, low) : low;
  return whole == 0 ? std::string() : std::string(text.substr(0, whole)) + "...";
}

}  // namespace

float SegmentsHeight(const Canvas& canvas) { return canvas.Px(kSegmentHeight); }

float SegmentsWidth(const Canvas& canvas, const std::vector<std::string>& names) {
  float width = 0.0F;
  for (const std::string& name : names) width += SegmentWidth(canvas, name);
  return width;
}

// A press selects at once, so that the frame that receives it already shows the choice.
float Segments(const ScreenFrame& frame, Point at, const std::vector<std::string>& names,
               int* chosen) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box all{at.x, at.y, at.x + SegmentsWidth(canvas, names), at.y + SegmentsHeight(canvas)};
  canvas.Fill(all, Mixed(theme.panel, theme.text, 0.07F), canvas.Px(4));
  float x = at.x;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Box box{x, all.y0, x + SegmentWidth(canvas, names[i]), all.y1};
    const bool over = box.Contains(frame.input.x, frame.input.y);
    if (over && frame.input.pressed) *chosen = static_cast<int>(i);
    const bool now = static_cast<int>(i) == *chosen;
    if (now) canvas.Fill(box, Mixed(theme.panel, theme.text, 0.24F), canvas.Px(4));
    canvas.TextIn(canvas.fonts.small, box, Align::kCentre, now || over ? theme.text : theme.muted,
                  names[i]);
    canvas.record.widgets.push_back({names[i], box});
    x = box.x1;
  }
  return x;
}

float Heading(Canvas& canvas, Point at, std::string_view title, std::string_view remark) {
  float x = at.x + canvas.Text(canvas.fonts.bold, at, canvas.theme.text, title);
  if (remark.empty()) return x;
  x += canvas.Px(10);
  return x + canvas.Text(canvas.fonts.small, {x, at.y + canvas.Px(2)}, canvas.theme.muted, remark);
}

void DrawEmpty(Canvas& canvas, const Box& box, std::string_view text) {
  canvas.TextIn(canvas.fonts.text, box, Align::kCentre, canvas.theme.muted,
                Shortened(canvas, canvas.fonts.text, text, box.Width()));
}

// Greedy: each line takes as many words as fit.
std::vector<std::string> Wrapped(ImFont* font, std::string_view text, float width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word = CutTo(font, text.substr(0, end), width);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && WidthOf(font, longer) > width) {
      lines.push_back(std::move(line));
      line = word;
    } else {
      line = longer;
    }
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string Shortened(const Canvas&, ImFont* font, std::string_view text, float width) {
  return CutTo(font, text, width);
}
Colour ToneColour(const Theme& theme, Tone tone) {
  switch (tone) {
    case Tone::kWorse:
      return theme.worse;
    case Tone::kBetter:
      return theme.better;
    case Tone::kAmber:
      return theme.amber;
    case Tone::kPlain:
      break;
  }
  return theme.text;
}

Tone ToneOf(double difference) {
  return difference > 0 ? Tone::kWorse : difference < 0 ? Tone::kBetter : Tone::kPlain;
}

// The card lies at the lower right of the mouse and moves left or up if it would leave the window.
void DrawTooltip(Canvas& canvas, const Box& window, const HoverText& text, Point mouse) {
  const Theme& theme = canvas.theme;
  float width = std::max(canvas.WidthOf(canvas.fonts.bold, text.title),
                         canvas.WidthOf(canvas.fonts.small, text.subtitle));
  for (const HoverLine& line : text.lines) {
    width = std::max(width,
                     canvas.Px(kNameColumn) + canvas.WidthOf(canvas.fonts.mono_small, line.value));
  }
  const float pad = canvas.Px(kPad);
  const float height = canvas.Px(44) + static_cast<float>(text.lines.size()) * canvas.Px(kLine);
  Box box{mouse.x + canvas.Px(16), mouse.y + canvas.Px(18), 0.0F, 0.0F};
  if (box.x0 + width + 2 * pad > window.x1) box.x0 = mouse.x - canvas.Px(12) - width - 2 * pad;
  box.x0 = std::max(window.x0 + canvas.Px(4), box.x0);
  box.y0 = std::max(window.y0 + canvas.Px(4), std::min(box.y0, window.y1 - height - 2 * pad));
  box.x1 = box.x0 + width + 2 * pad;
  box.y1 = box.y0 + height + 1.5F * pad;
  canvas.Card(box);
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
                ToneColour(theme, line.tone), line.value);
    canvas.record.tooltip.push_back(line.name + ": " + line.value);
    y += canvas.Px(kLine);
  }
}

void DrawTooltipOnTop(const ScreenFrame& frame, const HoverText& text) {
  Canvas top{*ImGui::GetForegroundDrawList(), frame.canvas.theme, frame.canvas.fonts,
             frame.canvas.scale, frame.canvas.record};
  DrawTooltip(top, frame.box, text, {frame.input.x, frame.input.y});
}

}  // namespace foretrain::ui

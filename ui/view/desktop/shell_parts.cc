#include "ui/view/desktop/shell_parts.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ui/view/lanes/segments.h"
#include "ui/view_model/glossary.h"

namespace foretrain::ui {
namespace {

constexpr float kTile = 128.0F;  // widths
constexpr float kMinTile = 84.0F;
constexpr float kMargin = 14.0F;

// A small picture of how a side is drawn.
void DrawSwatch(Canvas& canvas, const Box& box, Colour colour, Side side) {
  if (side == Side::kPredicted) {
    canvas.Fill(box, Mixed(canvas.theme.panel, colour, 0.34F), canvas.Px(2));
    canvas.Outline(box, colour, 1.0F, canvas.Px(2));
  } else {
    canvas.Fill(box, colour, canvas.Px(2));
  }
}

// Draws `text` in a rounded frame that ends at `right`; returns where it starts.
float Chip(Canvas& canvas, const Box& header, float right, const std::string& text, Colour colour) {
  const float pad = canvas.Px(9);
  const float width = canvas.WidthOf(canvas.fonts.small, text) + 2 * pad;
  const float middle = (header.y0 + header.y1) / 2;
  const Box box{right - width, middle - canvas.Px(11), right, middle + canvas.Px(11)};
  canvas.Outline(box, Faded(colour, 0.45F), 1.0F, canvas.Px(11));
  canvas.TextIn(canvas.fonts.small, box, Align::kCentre, colour, text);
  return box.x0;
}

// One number: measured large, forecast and error below it. In a narrow tile the error alone
// remains.
void DrawTile(Canvas& canvas, const Number& number, float x, float y, float width) {
  const Theme& theme = canvas.theme;
  canvas.Text(canvas.fonts.small, {x, y + canvas.Px(7)}, theme.muted, number.name);
  const bool measured = !number.measured.empty();
  canvas.Text(canvas.fonts.mono_large, {x, y + canvas.Px(22)},
              measured ? theme.text : theme.predicted,
              measured ? number.measured : number.predicted);
  float at = x;
  const float below = y + canvas.Px(49);
  ImFont* const font = canvas.fonts.mono_small;
  if (measured && !number.predicted.empty()) {
    const Colour colour = number.tone == Tone::kWorse    ? theme.worse
                          : number.tone == Tone::kBetter ? theme.better
                                                         : theme.muted;
    const float both = canvas.WidthOf(font, number.predicted + number.error) + canvas.Px(16);
    if (both <= width) {
      at += canvas.Text(font, {at, below}, theme.muted, number.predicted) + canvas.Px(8);
    }
    canvas.Text(font, {at, below}, colour, number.error);
    return;
  }
  canvas.Text(font, {at, below}, theme.faint, measured ? "not predicted" : "not measured");
}

// With its folder: many stores are called foretrain.db.
std::string FileNameOf(const std::string& path) {
  const std::size_t last = path.rfind('/');
  if (last == std::string::npos || last == 0) return path;
  const std::size_t before = path.rfind('/', last - 1);
  return before == std::string::npos ? path : path.substr(before + 1);
}

// Shows the definition of a number next to the mouse, and its value for the whole run.
void Define(Canvas& canvas, const Number& number) {
  std::string text(DefinitionOf(number.name));
  if (!number.variant.empty()) text += (text.empty() ? "" : "\n") + number.variant;
  if (text.empty()) return;
  canvas.record.tooltip.emplace_back(text);
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(canvas.Px(420));
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

// Width that both runs need with their whole labels, as the top bar writes them.
float WidthOfRuns(const Canvas& canvas, const CompareModel& model) {
  float width = 0.0F;
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    width += canvas.WidthOf(canvas.fonts.text, model.NameOf(side)) +
             canvas.WidthOf(canvas.fonts.text, model.Of(side).run->label) + canvas.Px(62);
  }
  return width;
}

}  // namespace

// Chips are placed from the right; the runs take the rest. If their labels do not fit, only the
// part before ':' is shown.
void DrawTopBar(Canvas& canvas, const Box& box, const Box& help, const DesktopState& state,
                const std::vector<std::string>& chips) {
  const Theme& theme = canvas.theme;
  const CompareModel& model = state.session.model();
  canvas.Fill(box, theme.panel);
  const float middle = (box.y0 + box.y1) / 2;
  const float y = middle - canvas.HeightOf(canvas.fonts.text) / 2;
  float x = box.x0 + canvas.Px(kMargin);
  canvas.Outline(help, Faded(theme.muted, 0.45F), 1.0F, help.Height() / 2);
  canvas.TextIn(canvas.fonts.small, help, Align::kCentre, theme.muted, "? help");
  canvas.record.widgets.push_back({"? help", help});
  float right = help.x0 - canvas.Px(8);
  for (auto chip = chips.rbegin(); chip != chips.rend(); ++chip) {
    right = Chip(canvas, box, right, *chip, theme.muted) - canvas.Px(8);
  }
  // Emulated times must never pass for measured ones.
  const bool emulated = std::any_of(model.sides.begin(), model.sides.end(), [](const auto& side) {
    return side.IsPresent() && side.run->emulated;
  });
  if (emulated) right = Chip(canvas, box, right, "emulated", theme.amber) - canvas.Px(8);
  canvas.PushClip({box.x0, box.y0, right - canvas.Px(8), box.y1});
  // Both runs shorten together, so that they stay comparable.
  const bool shortly = WidthOfRuns(canvas, model) > right - x;
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    const Box swatch{x, middle - canvas.Px(6), x + canvas.Px(18), middle + canvas.Px(6)};
    DrawSwatch(canvas, swatch, theme.Of(Hue::kForward), side);
    x = swatch.x1 + canvas.Px(8);
    if (!shortly) {
      x += canvas.Text(canvas.fonts.text, {x, y}, theme.text, model.NameOf(side)) + canvas.Px(8);
    }
    const std::string& label = model.Of(side).run->label;
    const std::string name = shortly ? label.substr(0, label.find(':')) : label;
    const float room = std::max(0.0F, right - canvas.Px(8) - x);
    x += canvas.Text(canvas.fonts.text, {x, y}, theme.muted,
                     Shortened(canvas, canvas.fonts.text, name, room)) +
         canvas.Px(shortly ? 14 : 28);
  }
  canvas.PopClip();
}

// Tiles share the width evenly. Those that do not fit are left out from the right, so numbers come
// in order of weight.
void DrawStrip(Canvas& canvas, const Box& box, const std::vector<Number>& numbers, Point mouse) {
  canvas.Fill(box, canvas.theme.panel);
  const auto tiles = std::count_if(numbers.begin(), numbers.end(),
                                   [](const Number& number) { return !number.quality; });
  const float room = box.Width() - canvas.Px(kMargin);
  const float width = std::clamp(room / static_cast<float>(std::max<std::ptrdiff_t>(1, tiles)),
                                 canvas.Px(kMinTile), canvas.Px(kTile));
  canvas.PushClip(box);
  float x = box.x0 + canvas.Px(kMargin);
  for (const Number& number : numbers) {
    if (number.quality) continue;
    if (x + width > box.x1) break;
    DrawTile(canvas, number, x, box.y0, width);
    if (Box{x, box.y0, x + width, box.y1}.Contains(mouse.x, mouse.y)) Define(canvas, number);
    x += width;
  }
  canvas.PopClip();
}

float NoticeMargins(float scale) { return std::round((kMargin + 6.0F) * scale); }

// Lines share the box evenly.
void DrawNotices(Canvas& canvas, const Box& box, const std::vector<std::string>& notices) {
  if (box.IsEmpty() || notices.empty()) return;
  Box line = box;
  const float height = box.Height() / static_cast<float>(notices.size());
  for (const std::string& notice : notices) {
    line.y1 = line.y0 + height;
    canvas.Fill(line, Mixed(canvas.theme.ground, canvas.theme.amber, 0.10F));
    canvas.TextIn(canvas.fonts.small,
                  {line.x0 + canvas.Px(kMargin), line.y0, line.x1 - canvas.Px(4), line.y1},
                  Align::kLeft, canvas.theme.amber, notice);
    line.y0 = line.y1;
  }
}

// Doubtful numbers come first, because the line may have no space for all.
void DrawStatus(Canvas& canvas, const Box& box, const Box& store, const DesktopState& state) {
  const Theme& theme = canvas.theme;
  canvas.Fill(box, theme.panel);
  canvas.Fill({box.x0, box.y0, box.x1, box.y0 + 1.0F}, theme.line);
  const float y = (box.y0 + box.y1) / 2 - canvas.HeightOf(canvas.fonts.small) / 2;
  std::vector<const Number*> numbers;
  for (const Number& number : state.session.model().numbers) {
    if (number.quality) numbers.push_back(&number);
  }
  std::stable_sort(numbers.begin(), numbers.end(), [](const Number* a, const Number* b) {
    return (a->tone == Tone::kAmber) > (b->tone == Tone::kAmber);
  });
  const std::string& path = state.session.shown().path;
  const std::string name = path.empty() ? "no store is open" : FileNameOf(path);
  canvas.TextIn(canvas.fonts.small,
                {store.x0 + canvas.Px(kMargin), store.y0, store.x1 - canvas.Px(8), store.y1},
                Align::kLeft, theme.text, name);
  canvas.record.widgets.push_back({"store", store});
  float x = store.x1;
  if (const std::size_t count = state.session.runs().size(); count > 0) {
    const std::string runs = std::to_string(count) + (count == 1 ? " run" : " runs");
    x += canvas.Text(canvas.fonts.small, {x, y}, theme.faint, runs) + canvas.Px(20);
  }
  for (const Number* number : numbers) {
    const bool amber = number->tone == Tone::kAmber;
    const float width = canvas.Px(36) + canvas.WidthOf(canvas.fonts.small, number->name) +
                        canvas.WidthOf(canvas.fonts.mono_small, number->measured);
    if (x + width > box.x1) break;
    canvas.Dot({x + canvas.Px(4), (box.y0 + box.y1) / 2}, canvas.Px(3),
               amber ? theme.amber : theme.line);
    float at = x + canvas.Px(12);
    at += canvas.Text(canvas.fonts.small, {at, y}, theme.muted, number->name) + canvas.Px(6);
    canvas.Text(canvas.fonts.mono_small, {at, y + canvas.Px(1)}, amber ? theme.amber : theme.text,
                number->measured);
    x += width;
  }
}

// Records each item's box, so that tests can click it by name.
void DrawRail(Canvas& canvas, const Box& box, const std::vector<RailItem>& items) {
  const Theme& theme = canvas.theme;
  canvas.Fill(box, theme.panel);
  canvas.Fill({box.x1 - 1.0F, box.y0, box.x1, box.y1}, theme.line);
  for (const RailItem& item : items) {
    if (item.chosen || item.hovered) {
      canvas.Fill(item.box, Faded(theme.text, item.chosen ? 0.10F : 0.05F));
    }
    if (item.chosen) {
      canvas.Fill({item.box.x0, item.box.y0, item.box.x0 + canvas.Px(3), item.box.y1}, theme.text);
    }
    const Colour colour = item.chosen ? theme.text : theme.muted;
    const float middle = (item.box.y0 + item.box.y1) / 2;
    ImFont* const font = canvas.fonts.icons != nullptr ? canvas.fonts.icons : canvas.fonts.bold;
    canvas.TextIn(font, {item.box.x0, item.box.y0, item.box.x1, middle + canvas.Px(6)},
                  Align::kCentre, colour, item.icon);
    canvas.TextIn(canvas.fonts.small, {item.box.x0, middle, item.box.x1, item.box.y1},
                  Align::kCentre, colour, item.title);
    canvas.record.widgets.push_back({std::string(item.title), item.box});
  }
}

// Covers the window with a card in the middle. Lines move closer together in a low window rather
// than fall out of it.
void DrawHelpCard(Canvas& canvas, const Box& window, const std::vector<HelpLine>& lines) {
  canvas.Fill(window, Faded(canvas.theme.ground, 0.72F));
  const float width = std::min(canvas.Px(540), window.Width() - canvas.Px(8));
  // Lines move together in a low window.
  const float room = window.Height() - canvas.Px(70);
  const float line = std::clamp(room / static_cast<float>(std::max<std::size_t>(1, lines.size())),
                                canvas.Px(13), canvas.Px(23));
  const float height = canvas.Px(64) + static_cast<float>(lines.size()) * line;
  const float x0 = std::round((window.x0 + window.x1 - width) / 2);
  const float y0 = std::max(window.y0, std::round((window.y0 + window.y1 - height) / 2));
  canvas.Card({x0, y0, x0 + width, y0 + height});
  const float x = x0 + canvas.Px(24);
  float y = y0 + canvas.Px(18);
  canvas.Text(canvas.fonts.bold, {x, y}, canvas.theme.text, "Keys and mouse");
  y += canvas.Px(32);
  for (const HelpLine& help : lines) {
    canvas.Text(canvas.fonts.mono, {x, y}, canvas.theme.text, help.keys);
    canvas.Text(canvas.fonts.text, {x + canvas.Px(140), y - canvas.Px(1)}, canvas.theme.muted,
                help.what);
    y += line;
  }
}

}  // namespace foretrain::ui

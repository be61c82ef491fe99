// Shows all details of the selected span, and the critical path in numbers.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/units.h"
#include "ui/view/panels/panels.h"

namespace foretrain::ui {
namespace {

constexpr float kWidth = 330.0F;
constexpr float kNameColumn = 110.0F;
constexpr float kLine = 18.0F;
constexpr float kPad = 12.0F;
constexpr std::size_t kMaxLetters = 34;  // maximum length of a value on one line

// Amber marks a value that cannot be trusted.
Colour ColourOf(const Theme& theme, Tone tone) {
  if (tone == Tone::kWorse) return theme.worse;
  if (tone == Tone::kBetter) return theme.better;
  return tone == Tone::kAmber ? theme.amber : theme.text;
}

// Breaks values at spaces into lines of at most kMaxLetters, if possible.
std::vector<HoverLine> Wrapped(const std::vector<HoverLine>& lines) {
  std::vector<HoverLine> wrapped;
  for (const HoverLine& line : lines) {
    std::string rest = line.value;
    std::string name = line.name;
    while (rest.size() > kMaxLetters) {
      const std::size_t blank = rest.rfind(' ', kMaxLetters);
      if (blank == std::string::npos || blank == 0) break;
      wrapped.push_back({name, rest.substr(0, blank), line.tone});
      rest = rest.substr(blank + 1);
      name.clear();
    }
    wrapped.push_back({name, rest, line.tone});
  }
  return wrapped;
}

}  // namespace

// The card lies on the side away from the mouse, so that it does not hide the spans under
// examination.
void DrawDetails(const Frame& frame) {
  const ViewState& state = frame.state;
  if (!state.selected.has_value() || state.selected_lane >= frame.model.lanes.size()) return;
  const HoverText text =
      DetailsOfSpan(frame.model, frame.model.lanes[state.selected_lane].rank, *state.selected);
  const std::vector<HoverLine> lines = Wrapped(text.lines);
  Canvas& canvas = frame.canvas;
  const Box& lanes = frame.layout.lanes;
  const float width = std::min(canvas.Px(kWidth), lanes.Width() / 2);
  const float height = canvas.Px(54) + static_cast<float>(lines.size()) * canvas.Px(kLine);
  // On the left if the mouse is on the right.
  const bool left =
      state.hovered.has_value() && frame.X(state.hovered->time_ns) > (lanes.x0 + lanes.x1) / 2;
  const float x0 =
      left ? frame.layout.plot_x0 + canvas.Px(8) : frame.layout.plot_x1 - width - canvas.Px(8);
  const Box box{x0, lanes.y0 + canvas.Px(8), x0 + width,
                std::min(lanes.y0 + canvas.Px(8) + height, frame.layout.window.y1)};
  canvas.Card(box);
  canvas.PushClip(box);
  const float x = box.x0 + canvas.Px(kPad);
  float y = box.y0 + canvas.Px(10);
  canvas.Text(canvas.fonts.bold, {x, y}, canvas.theme.text, text.title);
  y += canvas.Px(20);
  canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, text.subtitle);
  y += canvas.Px(22);
  for (const HoverLine& line : lines) {
    canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, line.name);
    canvas.Text(canvas.fonts.mono_small, {x + canvas.Px(kNameColumn), y + canvas.Px(1)},
                ColourOf(canvas.theme, line.tone), line.value);
    y += canvas.Px(kLine);
  }
  canvas.PopClip();
}

// Percentages refer to the length of the path.
std::string DescribePath(const CriticalPath& path, const SideNames& names) {
  const auto share = [&path](std::int64_t ns) {
    const std::int64_t whole = std::max<std::int64_t>(1, path.LengthNs());
    return FormatPercent(static_cast<double>(ns) / static_cast<double>(whole));
  };
  std::string text =
      fmt::format("{} critical path {}: compute {}, communication {}", names[Index(path.side)],
                  FormatSeconds(SecondsFromNs(path.LengthNs())), share(path.compute_ns),
                  share(path.communication_ns));
  if (path.other_ns > 0) text += ", copies " + share(path.other_ns);
  return text + ", waits " + share(path.wait_ns);
}

}  // namespace foretrain::ui

// Title, numbers, notices and legend.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ui/view/panels.h"

namespace foretrain::ui {
namespace {

constexpr float kTile = 128.0F;  // widths
constexpr float kComfortableTile = 112.0F;
constexpr float kLeastTile = 84.0F;
constexpr float kMargin = 16.0F;
constexpr float kQualityColumn = 158.0F;
constexpr std::size_t kQualityRows = 3;

// A small picture of how a side is drawn.
void DrawSwatch(Canvas& canvas, const Box& box, Colour colour, Side side) {
  if (side == Side::kPredicted) {
    canvas.Fill(box, Mixed(canvas.theme.panel, colour, 0.34F), canvas.Px(2));
    canvas.Outline(box, colour, 1.0F, canvas.Px(2));
  } else {
    canvas.Fill(box, colour, canvas.Px(2));
  }
}

std::string StepText(const SideModel& side) {
  if (side.step < 0) return "no steps";
  const bool median = side.metrics->overall.has_value() && side.metrics->overall->step == side.step;
  return fmt::format("step {}, {} {}", side.step, median ? "median of" : "one of",
                     side.steps.size());
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
    const Colour colour = number.tone == Tone::kMore   ? theme.more
                          : number.tone == Tone::kLess ? theme.less
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

void DrawQuality(Canvas& canvas, const Number& number, const Box& box) {
  const Theme& theme = canvas.theme;
  const bool amber = number.tone == Tone::kAmber;
  const float middle = (box.y0 + box.y1) / 2;
  canvas.Dot({box.x0 + canvas.Px(4), middle}, canvas.Px(3), amber ? theme.amber : theme.line);
  canvas.TextIn(canvas.fonts.small, {box.x0 + canvas.Px(14), box.y0, box.x1, box.y1}, Align::kLeft,
                theme.muted, number.name);
  canvas.TextIn(canvas.fonts.mono_small, {box.x0, box.y0, box.x1 - canvas.Px(18), box.y1},
                Align::kRight, amber ? theme.amber : theme.text, number.measured);
}

// The numbers that say how far the others can be trusted, amber ones first, in columns that start
// at x0.
void DrawQualities(const Frame& frame, float x0) {
  Canvas& canvas = frame.canvas;
  const Box& panel = frame.layout.numbers;
  std::vector<const Number*> numbers;
  for (const Number& number : frame.model.numbers) {
    if (number.quality) numbers.push_back(&number);
  }
  std::stable_sort(numbers.begin(), numbers.end(), [](const Number* a, const Number* b) {
    return (a->tone == Tone::kAmber) > (b->tone == Tone::kAmber);
  });
  const float height = canvas.Px(18);
  const float width = canvas.Px(kQualityColumn);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float x = x0 + static_cast<float>(i / kQualityRows) * width;
    const float y = panel.y0 + canvas.Px(8) + static_cast<float>(i % kQualityRows) * height;
    if (x + width > panel.x1 + 1.0F) break;
    DrawQuality(canvas, *numbers[i], {x, y, x + width, y + height});
  }
}

std::vector<Hue> HuesInUse(const CompareModel& model) {
  std::array<bool, kHueCount> used{};
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    // A sample is enough: a class of a whole run is not rarer than this.
    const std::vector<Span>& spans = model.TimelineOf(side).spans;
    const std::size_t stride = std::max<std::size_t>(1, spans.size() / 20000);
    for (std::size_t i = 0; i < spans.size(); i += stride) {
      used[static_cast<std::size_t>(HueOf(spans[i]))] = true;
    }
  }
  if (model.options.rows == LaneRows::kMerged) used[static_cast<std::size_t>(Hue::kHost)] = false;
  std::vector<Hue> hues;
  for (std::size_t hue = 0; hue < kHueCount; ++hue) {
    if (used[hue]) hues.push_back(static_cast<Hue>(hue));
  }
  return hues;
}

// From faster to slower, as the error lines are coloured.
float DrawErrorScale(const Frame& frame, float x, float middle) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const float y = middle - canvas.HeightOf(canvas.fonts.small) / 2;
  x += canvas.Text(canvas.fonts.small, {x, y}, theme.less, "faster") + canvas.Px(6);
  constexpr int kSteps = 9;
  for (int i = 0; i < kSteps; ++i) {
    const float at = static_cast<float>(i - kSteps / 2) / static_cast<float>(kSteps / 2);
    const float strength = at == 0.0F ? 0.0F : 0.25F + 0.75F * std::abs(at);
    const Colour colour = Mixed(theme.line, at > 0 ? theme.more : theme.less, strength);
    const Box box{x, middle - canvas.Px(3), x + canvas.Px(9), middle + canvas.Px(3)};
    canvas.Fill(box, colour);
    x = box.x1;
  }
  x += canvas.Px(6);
  x += canvas.Text(canvas.fonts.small, {x, y}, theme.more, "slower than forecast");
  return x + canvas.Px(24);
}

}  // namespace

void DrawHeader(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box& box = frame.layout.header;
  canvas.Fill(box, theme.panel);
  const float middle = (box.y0 + box.y1) / 2;
  const float y = middle - canvas.HeightOf(canvas.fonts.text) / 2;
  float x = canvas.Px(kMargin);
  x += canvas.Text(canvas.fonts.bold, {x, y}, theme.text, "foretrain") + canvas.Px(22);

  float right = box.x1 - canvas.Px(kMargin);
  right = Chip(canvas, box, right, "? help", theme.muted) - canvas.Px(8);
  const bool step_start = frame.model.options.alignment == Alignment::kStepStart;
  right =
      Chip(canvas, box, right, step_start ? "aligned at step start" : "wall clock", theme.muted) -
      canvas.Px(8);
  const SideModel& shown = frame.model.Of(
      frame.model.Of(Side::kMeasured).IsPresent() ? Side::kMeasured : Side::kPredicted);
  if (shown.IsPresent()) {
    right = Chip(canvas, box, right, StepText(shown), theme.muted) - canvas.Px(8);
  }
  if (shown.IsPresent() && shown.run->emulated) {
    right = Chip(canvas, box, right, "emulated", theme.amber) - canvas.Px(8);
  }
  canvas.PushClip({0.0F, box.y0, right - canvas.Px(8), box.y1});
  for (const Side side : kSides) {
    if (!frame.model.Of(side).IsPresent()) continue;
    const Box swatch{x, middle - canvas.Px(6), x + canvas.Px(18), middle + canvas.Px(6)};
    DrawSwatch(canvas, swatch, theme.Of(Hue::kForward), side);
    x = swatch.x1 + canvas.Px(8);
    const std::string name = side == Side::kPredicted ? "predicted" : "measured";
    x += canvas.Text(canvas.fonts.text, {x, y}, theme.text, name) + canvas.Px(8);
    x += canvas.Text(canvas.fonts.text, {x, y}, theme.muted, frame.model.Of(side).run->label) +
         canvas.Px(28);
  }
  canvas.PopClip();
}

void DrawNumbers(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Box& panel = frame.layout.numbers;
  canvas.Fill(panel, canvas.theme.panel);
  canvas.Fill({panel.x0, panel.y1 - 1.0F, panel.x1, panel.y1}, canvas.theme.line);
  const std::vector<Number>& numbers = frame.model.numbers;
  const auto qualities = static_cast<std::size_t>(std::count_if(
      numbers.begin(), numbers.end(), [](const Number& number) { return number.quality; }));
  const std::size_t tiles = numbers.size() - qualities;
  const std::size_t wanted = (qualities + kQualityRows - 1) / kQualityRows;
  const float column = canvas.Px(kQualityColumn);
  const float room = panel.Width() - canvas.Px(kMargin);
  // All columns of qualities where tiles keep a comfortable width, else one.
  const float comfortable = static_cast<float>(tiles) * canvas.Px(kComfortableTile);
  const auto all = static_cast<float>(wanted) * column;
  const float right = comfortable + all <= room ? all : std::min(all, column);
  const float width =
      std::clamp((room - right) / static_cast<float>(std::max<std::size_t>(1, tiles)),
                 canvas.Px(kLeastTile), canvas.Px(kTile));
  canvas.PushClip(panel);
  float x = canvas.Px(kMargin);
  for (const Number& number : numbers) {
    if (number.quality) continue;
    if (x + width > panel.x1) break;
    DrawTile(canvas, number, x, panel.y0, width);
    x += width;
  }
  DrawQualities(frame, std::max(x, panel.x1 - right));
  canvas.PopClip();
}

void DrawNotices(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  Box line = frame.layout.notices;
  if (line.IsEmpty()) return;
  const float height = line.Height() / static_cast<float>(frame.model.notices.size());
  for (const std::string& notice : frame.model.notices) {
    line.y1 = line.y0 + height;
    canvas.Fill(line, Mixed(canvas.theme.ground, canvas.theme.amber, 0.10F));
    canvas.TextIn(canvas.fonts.small, {canvas.Px(kMargin), line.y0, line.x1, line.y1}, Align::kLeft,
                  canvas.theme.amber, notice);
    line.y0 = line.y1;
  }
}

void DrawLegend(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box& box = frame.layout.legend;
  canvas.Fill(box, theme.panel);
  canvas.Fill({box.x0, box.y0, box.x1, box.y0 + 1.0F}, theme.line);
  const float middle = (box.y0 + box.y1) / 2;
  const float y = middle - canvas.HeightOf(canvas.fonts.small) / 2;
  float x = canvas.Px(kMargin);
  for (const Hue hue : HuesInUse(frame.model)) {
    const Box swatch{x, middle - canvas.Px(5), x + canvas.Px(10), middle + canvas.Px(5)};
    canvas.Fill(swatch, theme.Of(hue), canvas.Px(2));
    x = swatch.x1 + canvas.Px(6);
    x += canvas.Text(canvas.fonts.small, {x, y}, theme.muted, Name(hue)) + canvas.Px(18);
  }
  x += canvas.Px(10);
  if (frame.model.HasBoth()) x = DrawErrorScale(frame, x, middle);
  const std::string keys = "wheel zoom   drag pan   F fit   [ ] worst error   M twin   ? help";
  const float width = canvas.WidthOf(canvas.fonts.small, keys);
  if (x + width + canvas.Px(kMargin) < box.x1) {
    canvas.Text(canvas.fonts.small, {box.x1 - width - canvas.Px(kMargin), y}, theme.faint, keys);
  }
}

}  // namespace foretrain::ui

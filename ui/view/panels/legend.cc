// Draws the legend of the compare view's colours.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ui/view/panels/panels.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 14.0F;

constexpr int kScaleSteps = 9;
constexpr float kScaleStep = 9.0F;

std::string SlowerText(const Frame& frame) {
  return fmt::format("slower than {}", frame.model.Reference());
}

float WidthOfScale(const Frame& frame) {
  const Canvas& canvas = frame.canvas;
  return canvas.WidthOf(canvas.fonts.small, "faster") + canvas.Px(12) +
         kScaleSteps * canvas.Px(kScaleStep) +
         canvas.WidthOf(canvas.fonts.small, SlowerText(frame));
}

// Colour scale of the error lines, from faster to slower.
float DrawErrorScale(const Frame& frame, float x, float middle) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const float y = middle - canvas.HeightOf(canvas.fonts.small) / 2;
  x += canvas.Text(canvas.fonts.small, {x, y}, theme.better, "faster") + canvas.Px(6);
  for (int i = 0; i < kScaleSteps; ++i) {
    const float at = static_cast<float>(i - kScaleSteps / 2) / static_cast<float>(kScaleSteps / 2);
    const float strength = at == 0.0F ? 0.0F : 0.25F + 0.75F * std::abs(at);
    const Colour colour = Mixed(theme.line, at > 0 ? theme.worse : theme.better, strength);
    const Box box{x, middle - canvas.Px(3), x + canvas.Px(kScaleStep), middle + canvas.Px(3)};
    canvas.Fill(box, colour);
    x = box.x1;
  }
  x += canvas.Px(6);
  x += canvas.Text(canvas.fonts.small, {x, y}, theme.worse, SlowerText(frame));
  return x + canvas.Px(24);
}

}  // namespace

// Only hues that occur are listed. The keys on the right are left out if they do not fit.
void DrawLegend(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box& box = frame.layout.legend;
  canvas.Fill(box, theme.panel);
  canvas.Fill({box.x0, box.y0, box.x1, box.y0 + 1.0F}, theme.line);
  const float middle = (box.y0 + box.y1) / 2;
  const float y = middle - canvas.HeightOf(canvas.fonts.small) / 2;
  float x = box.x0 + canvas.Px(kMargin);
  // Names move closer together if they need more than the width.
  float names = 0.0F;
  for (const Hue hue : frame.model.hues) {
    names += canvas.WidthOf(canvas.fonts.small, Name(hue)) + canvas.Px(16);
  }
  if (frame.model.HasBoth()) names += WidthOfScale(frame) + canvas.Px(10);
  const auto count = static_cast<float>(std::max<std::size_t>(1, frame.model.hues.size()));
  const float gap = std::clamp((box.Width() - 2 * canvas.Px(kMargin) - names) / count, canvas.Px(3),
                               canvas.Px(18));
  for (const Hue hue : frame.model.hues) {
    const Box swatch{x, middle - canvas.Px(5), x + canvas.Px(10), middle + canvas.Px(5)};
    const float end = swatch.x1 + canvas.Px(6) + canvas.WidthOf(canvas.fonts.small, Name(hue));
    if (end > box.x1) break;
    canvas.Fill(swatch, theme.Of(hue), canvas.Px(2));
    x = swatch.x1 + canvas.Px(6);
    x += canvas.Text(canvas.fonts.small, {x, y}, theme.muted, Name(hue)) + gap;
  }
  x += canvas.Px(10);
  if (frame.model.HasBoth()) x = DrawErrorScale(frame, x, middle);
  const std::string keys =
      frame.model.HasBoth()
          ? "wheel zoom   drag pan   F fit   [ ] worst error   M counterpart   ? help"
          : "wheel zoom   drag pan   F fit   ? help";
  const float width = canvas.WidthOf(canvas.fonts.small, keys);
  if (x + width + canvas.Px(kMargin) < box.x1) {
    canvas.Text(canvas.fonts.small, {box.x1 - width - canvas.Px(kMargin), y}, theme.faint, keys);
  }
}

}  // namespace foretrain::ui

// Draws the legend of the compare view's colours.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "ui/view/panels/panels.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 14.0F;

// Colour scale of the error lines, from faster to slower.
float DrawErrorScale(const Frame& frame, float x, float middle) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const float y = middle - canvas.HeightOf(canvas.fonts.small) / 2;
  x += canvas.Text(canvas.fonts.small, {x, y}, theme.better, "faster") + canvas.Px(6);
  constexpr int kSteps = 9;
  for (int i = 0; i < kSteps; ++i) {
    const float at = static_cast<float>(i - kSteps / 2) / static_cast<float>(kSteps / 2);
    const float strength = at == 0.0F ? 0.0F : 0.25F + 0.75F * std::abs(at);
    const Colour colour = Mixed(theme.line, at > 0 ? theme.worse : theme.better, strength);
    const Box box{x, middle - canvas.Px(3), x + canvas.Px(9), middle + canvas.Px(3)};
    canvas.Fill(box, colour);
    x = box.x1;
  }
  x += canvas.Px(6);
  x += canvas.Text(canvas.fonts.small, {x, y}, theme.worse,
                   fmt::format("slower than {}", frame.model.Reference()));
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
  for (const Hue hue : frame.model.hues) {
    const Box swatch{x, middle - canvas.Px(5), x + canvas.Px(10), middle + canvas.Px(5)};
    canvas.Fill(swatch, theme.Of(hue), canvas.Px(2));
    x = swatch.x1 + canvas.Px(6);
    x += canvas.Text(canvas.fonts.small, {x, y}, theme.muted, Name(hue)) + canvas.Px(18);
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

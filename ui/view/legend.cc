// What the colours of the compare view mean.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ui/view/panels.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 14.0F;

// Those of the first blocks of each track.
void AddHues(const SpanSums& sums, std::array<bool, kHueCount>& used) {
  constexpr std::size_t kBlocks = 100;
  for (const TrackSums& track : sums.tracks) {
    for (std::size_t i = 0; i < std::min(kBlocks, track.blocks.size()); ++i) {
      for (std::size_t hue = 0; hue < kHueCount; ++hue) {
        used[hue] = used[hue] || track.blocks[i].busy_ns[hue] > 0.0F;
      }
    }
  }
}

std::vector<Hue> HuesInUse(const CompareModel& model) {
  std::array<bool, kHueCount> used{};
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    if (const SpanSums* const sums = model.Of(side).run->sums.get()) AddHues(*sums, used);
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

void DrawLegend(const Frame& frame) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box& box = frame.layout.legend;
  canvas.Fill(box, theme.panel);
  canvas.Fill({box.x0, box.y0, box.x1, box.y0 + 1.0F}, theme.line);
  const float middle = (box.y0 + box.y1) / 2;
  const float y = middle - canvas.HeightOf(canvas.fonts.small) / 2;
  float x = box.x0 + canvas.Px(kMargin);
  for (const Hue hue : HuesInUse(frame.model)) {
    const Box swatch{x, middle - canvas.Px(5), x + canvas.Px(10), middle + canvas.Px(5)};
    canvas.Fill(swatch, theme.Of(hue), canvas.Px(2));
    x = swatch.x1 + canvas.Px(6);
    x += canvas.Text(canvas.fonts.small, {x, y}, theme.muted, Name(hue)) + canvas.Px(18);
  }
  x += canvas.Px(10);
  if (frame.model.HasBoth()) x = DrawErrorScale(frame, x, middle);
  const std::string keys = frame.model.HasBoth()
                               ? "wheel zoom   drag pan   F fit   [ ] worst error   M twin   ? help"
                               : "wheel zoom   drag pan   F fit   ? help";
  const float width = canvas.WidthOf(canvas.fonts.small, keys);
  if (x + width + canvas.Px(kMargin) < box.x1) {
    canvas.Text(canvas.fonts.small, {box.x1 - width - canvas.Px(kMargin), y}, theme.faint, keys);
  }
}

}  // namespace foretrain::ui

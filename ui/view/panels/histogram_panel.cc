#include "ui/view/panels/time_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {

// Bins of about 12 pixels, so that bars stay wide enough to see.
int HistogramBins(const Canvas& canvas, const Box& box) {
  return std::clamp(static_cast<int>(box.Width() / canvas.Px(12)), 4, 64);
}

// Measured bars are filled and predicted ones outlined over them, so that both stay visible. Both
// share one scale of counts.
void DrawHistogram(Canvas& canvas, const Box& box, const Histogram& histogram,
                   const SideNames& names) {
  const Theme& theme = canvas.theme;
  const Box plot{box.x0, box.y0 + canvas.Px(18), box.x1, box.y1 - canvas.Px(18)};
  if (plot.Height() < canvas.Px(30)) return;
  // The width is 0 if the group has no ops.
  if (!(histogram.width_ns > 0.0)) return DrawEmpty(canvas, plot, "No times.");
  const int bins =
      static_cast<int>(std::max(histogram.counts[0].size(), histogram.counts[1].size()));
  const double end_ns = histogram.start_ns + bins * histogram.width_ns;
  const auto x_of = [&](double ns) {
    const double share = (ns - histogram.start_ns) / (end_ns - histogram.start_ns);
    return plot.x0 + static_cast<float>(share) * plot.Width();
  };
  for (const Tick& tick : TimeTicks(histogram.start_ns, end_ns, 4)) {
    const float x = std::round(x_of(tick.value));
    canvas.Fill({x, plot.y0, x + 1.0F, plot.y1}, theme.grid);
    const float half = canvas.WidthOf(canvas.fonts.mono_small, tick.label) / 2;
    canvas.Text(canvas.fonts.mono_small,
                {std::clamp(x - half, box.x0, box.x1 - 2 * half), plot.y1 + canvas.Px(3)},
                theme.faint, tick.label);
  }
  // Both sides share the scale of counts, so that their bars can be compared.
  const auto highest = static_cast<float>(std::max<std::int64_t>(1, histogram.Highest()));
  const float width = plot.Width() / static_cast<float>(bins);
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    const auto& counts = histogram.counts[Index(side)];
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const float x = plot.x0 + static_cast<float>(i) * width;
      const float top = plot.y1 - static_cast<float>(counts[i]) / highest * plot.Height();
      const Box bar{x, std::min(top, plot.y1 - 1.0F), x + width - 1.0F, plot.y1};
      if (side == Side::kMeasured) {
        canvas.Fill(bar, Mixed(theme.ground, theme.text, 0.55F));
      } else {
        canvas.Outline(bar, theme.predicted, std::max(1.0F, 1.5F * canvas.scale));
      }
    }
  }
  float x = box.x0;
  const std::vector<std::string> medians = SecondsApart(std::array<double, 2>{
      SecondsFromNs(histogram.median_ns[0]), SecondsFromNs(histogram.median_ns[1])});
  for (const Side side : kSides) {
    if (histogram.median_ns[Index(side)] == 0) continue;
    const bool predicted = side == Side::kPredicted;
    const Box swatch{x, box.y0 + canvas.Px(2), x + canvas.Px(10), box.y0 + canvas.Px(12)};
    predicted ? canvas.Outline(swatch, theme.predicted)
              : canvas.Fill(swatch, Mixed(theme.ground, theme.text, 0.55F));
    x = swatch.x1 + canvas.Px(6);
    x += canvas.Text(canvas.fonts.small, {x, box.y0}, theme.muted,
                     fmt::format("{}, median", names[Index(side)])) +
         canvas.Px(6);
    x += canvas.Text(canvas.fonts.mono_small, {x, box.y0 + canvas.Px(1)}, theme.text,
                     medians[Index(side)]) +
         canvas.Px(16);
  }
}

}  // namespace foretrain::ui

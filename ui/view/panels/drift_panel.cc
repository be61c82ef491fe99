// Draws the drift plot: how far each rank lies behind its forecast.
#include <cmath>
#include <string>

#include "ui/view/lanes/drift_picture.h"
#include "ui/view/panels/panels.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// Names of the curves, above the plot.
void DrawNames(const Frame& frame, const Box& plot, const std::vector<DriftCurve>& curves) {
  Canvas& canvas = frame.canvas;
  float x = plot.x0 + canvas.Px(8);
  const float y = plot.y0 + canvas.Px(5);
  for (const DriftCurve& curve : curves) {
    if (!curve.named) continue;
    const Lane& lane = frame.model.lanes[curve.lane];
    const std::string drift = SignedTime(static_cast<double>(lane.drift.back().drift_ns));
    const float width = canvas.WidthOf(canvas.fonts.small, lane.name) +
                        canvas.WidthOf(canvas.fonts.mono_small, drift) + canvas.Px(46);
    // Names that do not fit are left out.
    if (x + width > plot.x1) break;
    const float middle = y + canvas.Px(7);
    canvas.Fill({x, middle - canvas.Px(1), x + canvas.Px(14), middle + canvas.Px(1)}, curve.colour);
    x += canvas.Px(20);
    x += canvas.Text(canvas.fonts.small, {x, y}, canvas.theme.muted, lane.name) + canvas.Px(6);
    x += canvas.Text(canvas.fonts.mono_small, {x, y + canvas.Px(1)}, canvas.theme.text, drift) +
         canvas.Px(20);
  }
}

}  // namespace

// The curves come as a picture; names, labels and ticks are drawn as text around it. A tick gives
// way to the caption.
void DrawDrift(const Frame& frame, const DriftPicture& drift, const Picture& picture) {
  const Box& box = frame.layout.drift;
  if (box.IsEmpty()) return;
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const float x = box.x0 + canvas.Px(14);
  canvas.Text(canvas.fonts.bold, {x, box.y0 + canvas.Px(6)}, theme.text, "drift");
  canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(25)}, theme.muted, "behind");
  const float width = canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(40)}, theme.muted,
                                  frame.model.Reference());
  const Box caption{x, box.y0 + canvas.Px(6), x + width, box.y0 + canvas.Px(54)};
  DrawNames(frame, frame.PlotOf(box), drift.curves);
  const Box plot = DriftPlot(frame.layout);
  canvas.Show(picture, plot);
  for (const Tick& tick : DriftTicks(drift.low_ns, drift.high_ns, kMaxDriftTicks)) {
    const float y = std::round(DriftY(drift, plot, tick.value));
    const float left = plot.x0 - canvas.Px(6) - canvas.WidthOf(canvas.fonts.mono_small, tick.label);
    if (left < caption.x1 && y + canvas.Px(8) > caption.y0 && y - canvas.Px(8) < caption.y1) {
      continue;
    }
    canvas.TextIn(
        canvas.fonts.mono_small,
        {box.x0 + canvas.Px(40), y - canvas.Px(8), plot.x0 - canvas.Px(6), y + canvas.Px(8)},
        Align::kRight, theme.faint, tick.label);
  }
  canvas.Fill({box.x0, box.y1, box.x1, box.y1 + 1.0F}, theme.line);
}

}  // namespace foretrain::ui

#include "ui/view/panels/time_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kRow = 22.0F;  // heights
constexpr float kStackRow = 28.0F;
constexpr float kStackGap = 6.0F;
constexpr float kAxis = 18.0F;
constexpr float kNames = 118.0F;  // widths
constexpr float kValues = 150.0F;

std::string PercentOf(double part, double whole) {
  return whole > 0.0 ? FormatPercent(part / whole) : std::string();
}

// Tooltip of a part: its meaning, time and share of the step.
HoverText HoverOfPart(TimePart part, std::string_view name, const StepParts& parts) {
  const double step_s = SecondsFromNs(parts.step_ns);
  return {std::string(Name(part)),
          std::string(Explain(part)),
          {{std::string(name), FormatSeconds(parts.Seconds(part))},
           {"share of step", PercentOf(parts.Seconds(part), step_s)},
           {"mean over", fmt::format("{} rank{}", parts.ranks, parts.ranks == 1 ? "" : "s")}}};
}

// Maps seconds to x within a plot.
struct TimeAxis {
  double low_s = 0.0;
  double high_s = 1.0;  // > low_s
  Box plot{};

  float X(double seconds) const {
    const double share = (seconds - low_s) / (high_s - low_s);
    return plot.x0 + static_cast<float>(std::clamp(share, 0.0, 1.0)) * plot.Width();
  }
};

// Ticks with labels below the bars; labels stay inside the plot.
void DrawAxis(Canvas& canvas, const TimeAxis& axis) {
  const int max = std::max(2, static_cast<int>(axis.plot.Width() / canvas.Px(110)));
  for (const Tick& tick : TimeTicks(axis.low_s * kNsPerSecond, axis.high_s * kNsPerSecond, max)) {
    const float x = std::round(axis.X(tick.value / kNsPerSecond));
    canvas.Fill({x, axis.plot.y0, x + 1.0F, axis.plot.y1}, canvas.theme.grid);
    const float half = canvas.WidthOf(canvas.fonts.mono_small, tick.label) / 2;
    const float at =
        std::clamp(x - half, axis.plot.x0, std::max(axis.plot.x0, axis.plot.x1 - 2 * half));
    canvas.Text(canvas.fonts.mono_small, {at, axis.plot.y1 + canvas.Px(3)}, canvas.theme.faint,
                tick.label);
  }
}

// An axis that spans all bars with a margin.
TimeAxis AxisOf(const Waterfall& fall, const Box& plot) {
  double low = std::min(fall.predicted_s, fall.measured_s);
  double high = std::max(fall.predicted_s, fall.measured_s);
  for (const WaterfallBar& bar : fall.bars) {
    low = std::min({low, bar.from_s, bar.to_s});
    high = std::max({high, bar.from_s, bar.to_s});
  }
  // Also above 0 if all bars are equal.
  const double margin = std::max(0.06 * (high - low), 1e-3 * high + 1e-9);
  return {std::max(0.0, low - margin), high + margin, plot};
}

struct RowBoxes {
  Box row{};
  Box name{};
  Box value{};
};

// Boxes of row `i`: the name left of the plot, the value right of it.
RowBoxes RowAt(const Canvas& canvas, const Box& box, const TimeAxis& axis, std::size_t i) {
  const float y = box.y0 + static_cast<float>(i) * canvas.Px(kRow);
  const Box row{box.x0, y, box.x1, y + canvas.Px(kRow)};
  return {row,
          {box.x0, row.y0, axis.plot.x0 - canvas.Px(8), row.y1},
          {axis.plot.x1 + canvas.Px(8), row.y0, box.x1, row.y1}};
}

// The first or the last row: a whole step, from the left edge on.
void DrawTotal(Canvas& canvas, const RowBoxes& at, const TimeAxis& axis, double seconds, Side side,
               const SideNames& names, const std::string& text) {
  const bool predicted = side == Side::kPredicted;
  const Colour colour = predicted ? canvas.theme.predicted : canvas.theme.text;
  canvas.TextIn(canvas.fonts.small, at.name, Align::kRight, canvas.theme.text, names[Index(side)]);
  const Box bar{axis.plot.x0, at.row.y0 + canvas.Px(4), axis.X(seconds), at.row.y1 - canvas.Px(4)};
  canvas.Fill(bar, predicted ? Mixed(canvas.theme.ground, colour, 0.34F)
                             : Mixed(canvas.theme.ground, colour, 0.75F));
  if (predicted) canvas.Outline(bar, colour);
  // The axis does not begin at 0, so the bar is drawn as broken.
  if (axis.low_s > 0.0) {
    for (const float offset : {10.0F, 16.0F}) {
      const float x = bar.x0 + canvas.Px(offset);
      const float lean = canvas.Px(4), width = canvas.Px(2);
      canvas.Quad({x + lean, bar.y0 - 1.0F}, {x + lean + width, bar.y0 - 1.0F},
                  {x + width, bar.y1 + 1.0F}, {x, bar.y1 + 1.0F}, canvas.theme.ground);
    }
  }
  canvas.TextIn(canvas.fonts.mono_small, at.value, Align::kLeft, canvas.theme.text, text);
}

// One part's difference: a bar from the sum so far to the sum with this part. A line shows its
// sampling error, a dashed line leads to the next row.
void DrawDelta(Canvas& canvas, const RowBoxes& at, const TimeAxis& axis, const WaterfallBar& bar,
               double predicted_s) {
  const Theme& theme = canvas.theme;
  const double delta_ns = bar.DeltaS() * kNsPerSecond;
  const bool none = std::abs(delta_ns) < 0.5;
  const Colour colour = none ? theme.faint : ToneColour(theme, ToneOf(delta_ns));
  canvas.TextIn(canvas.fonts.small, at.name, Align::kRight, none ? theme.faint : theme.muted,
                Shortened(canvas, canvas.fonts.small, bar.name, at.name.Width()));
  const float from = axis.X(bar.from_s), to = axis.X(bar.to_s);
  const float left = std::min(from, to);
  // A difference narrower than a pixel is drawn one pixel wide.
  const Box box{left, at.row.y0 + canvas.Px(4), std::max(left + 1.0F, std::max(from, to)),
                at.row.y1 - canvas.Px(4)};
  canvas.Fill(box, colour, canvas.Px(1));
  if (bar.error_s > 0.0) {
    const float y = (box.y0 + box.y1) / 2;
    canvas.Line({axis.X(bar.to_s - bar.error_s), y}, {axis.X(bar.to_s + bar.error_s), y},
                theme.text);
  }
  canvas.DashedLine({to, at.row.y1 - canvas.Px(4)}, {to, at.row.y1 + canvas.Px(4)}, theme.faint,
                    canvas.Px(2));
  std::string text = none ? "0" : SignedTime(delta_ns);
  // A share that would read as 0.0 % is left out.
  if (predicted_s > 0.0 && std::abs(bar.DeltaS()) >= 0.0005 * predicted_s)
    text += "  " + SignedPercent(bar.DeltaS() / predicted_s);
  canvas.TextIn(canvas.fonts.mono_small, at.value, Align::kLeft, colour, text);
}

}  // namespace

// Kinds of communication share a hue in different shades, and waits are pale, so that compute
// stands out.
Colour ColourOf(const Theme& theme, TimePart part) {
  switch (part) {
    case TimePart::kGemm:
      return theme.Of(Hue::kForward);
    case TimePart::kAttention:
      return theme.Of(Hue::kUpdate);
    case TimePart::kMemoryBound:
      return theme.Of(Hue::kBackward);
    case TimePart::kTpComm:
      return Mixed(theme.Of(Hue::kCollective), theme.text, 0.35F);
    case TimePart::kCpComm:
      return Mixed(theme.Of(Hue::kCollective), theme.ground, 0.45F);
    case TimePart::kEpComm:
      return Mixed(theme.Of(Hue::kCollective), theme.Of(Hue::kUpdate), 0.5F);
    case TimePart::kDpComm:
      return theme.Of(Hue::kCollective);
    case TimePart::kPpComm:
      return theme.Of(Hue::kPointToPoint);
    case TimePart::kCopy:
      return theme.Of(Hue::kCopy);
    case TimePart::kHostWait:
      return theme.Of(Hue::kHost);
    case TimePart::kInputWait:
      return Mixed(theme.ground, theme.muted, 0.40F);
    case TimePart::kPeerWait:
      return Mixed(theme.ground, theme.Of(Hue::kCollective), 0.40F);
    case TimePart::kDrain:
    case TimePart::kUneven:
      break;
  }
  return Mixed(theme.ground, theme.muted, 0.22F);
}

// Bars of the runs that are present, and the axis below them.
float StacksHeight(const Canvas& canvas, const std::array<std::optional<StepParts>, 2>& parts) {
  const int bars = static_cast<int>(parts[0].has_value()) + static_cast<int>(parts[1].has_value());
  return static_cast<float>(bars) * canvas.Px(kStackRow + kStackGap) + canvas.Px(kAxis);
}

// The parts of each run in one bar on a common scale from 0. The forecast is tinted and outlined.
std::optional<HoverText> DrawStacks(const ScreenFrame& frame, const Box& box,
                                    const std::array<std::optional<StepParts>, 2>& parts,
                                    const SideNames& names) {
  Canvas& canvas = frame.canvas;
  std::int64_t longest = 1;
  for (const auto& of : parts) longest = std::max(longest, of.has_value() ? of->step_ns : 1);
  Box plot{box.x0 + canvas.Px(kNames), box.y0, box.x1 - canvas.Px(kValues),
           box.y0 + StacksHeight(canvas, parts) - canvas.Px(kAxis)};
  std::optional<HoverText> hover;
  if (plot.Width() < canvas.Px(40)) return hover;
  const TimeAxis axis{0.0, SecondsFromNs(longest), plot};
  DrawAxis(canvas, axis);
  std::array<double, 2> steps_s{};
  for (const Side side : kSides) {
    const auto& of = parts[Index(side)];
    if (of.has_value()) steps_s[Index(side)] = SecondsFromNs(of->step_ns);
  }
  const std::vector<std::string> texts = SecondsApart(steps_s);
  float y = box.y0;
  for (const Side side : kSides) {
    const auto& of = parts[Index(side)];
    if (!of.has_value()) continue;
    const Box row{box.x0, y, box.x1, y + canvas.Px(kStackRow)};
    canvas.TextIn(canvas.fonts.small, {row.x0, row.y0, plot.x0 - canvas.Px(8), row.y1},
                  Align::kRight, canvas.theme.text, names[Index(side)]);
    double at_s = 0.0;
    for (int p = 0; p < kTimePartCount; ++p) {
      const auto part = static_cast<TimePart>(p);
      // Positions accumulate in seconds, so rounding to pixels leaves no gaps.
      const double next_s = at_s + of->Seconds(part);
      const Box piece{axis.X(at_s), row.y0, axis.X(next_s), row.y1};
      at_s = next_s;
      if (piece.Width() <= 0.0F) continue;
      const Colour colour = ColourOf(canvas.theme, part);
      const bool tint = side == Side::kPredicted;
      canvas.Fill(piece, tint ? Mixed(canvas.theme.ground, colour, 0.45F) : colour);
      if (tint && piece.Width() > 3.0F) canvas.Outline(piece, colour);
      const std::string name(Name(part));
      if (canvas.WidthOf(canvas.fonts.small, name) + canvas.Px(10) < piece.Width()) {
        canvas.TextIn(
            canvas.fonts.small, piece, Align::kCentre,
            tint || part >= TimePart::kInputWait ? canvas.theme.text : canvas.theme.on_span, name);
      }
      if (piece.Contains(frame.input.x, frame.input.y))
        hover = HoverOfPart(part, names[Index(side)], *of);
    }
    canvas.TextIn(canvas.fonts.mono_small, {plot.x1 + canvas.Px(8), row.y0, box.x1, row.y1},
                  Align::kLeft, canvas.theme.text, texts[Index(side)]);
    y = row.y1 + canvas.Px(kStackGap);
  }
  return hover;
}

std::vector<WaterfallBar> FewerBars(const Waterfall& fall, std::size_t max) {
  std::vector<WaterfallBar> bars = fall.bars;
  // Merges the two neighbours with the smallest differences until the rows fit.
  while (bars.size() > std::max<std::size_t>(1, max)) {
    std::size_t at = 0;
    double smallest = 0.0;
    for (std::size_t i = 0; i + 1 < bars.size(); ++i) {
      const double size = std::abs(bars[i].DeltaS()) + std::abs(bars[i + 1].DeltaS());
      if (i == 0 || size < smallest) {
        at = i;
        smallest = size;
      }
    }
    WaterfallBar& both = bars[at];
    both.name += ", " + bars[at + 1].name;
    both.explained += "; " + bars[at + 1].explained;
    both.to_s = bars[at + 1].to_s;
    both.error_s = std::hypot(both.error_s, bars[at + 1].error_s);
    bars.erase(bars.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  return bars;
}

// Height of `rows` rows with the axis below them.
float RowsHeight(const Canvas& canvas, std::size_t rows) {
  return static_cast<float>(rows) * canvas.Px(kRow) + canvas.Px(kAxis);
}

// Rows: predicted total, one per bar, measured total. The axis spans only the bars, since the
// differences are small against the step.
std::optional<HoverText> DrawWaterfall(const ScreenFrame& frame, const Box& box,
                                       const Waterfall& fall, const SideNames& names) {
  Canvas& canvas = frame.canvas;
  const auto fit =
      static_cast<std::size_t>(std::max(3.0F, (box.Height() - canvas.Px(kAxis)) / canvas.Px(kRow)));
  // Two rows are the totals.
  const std::vector<WaterfallBar> bars = FewerBars(fall, fit - 2);
  const float height = static_cast<float>(bars.size() + 2) * canvas.Px(kRow);
  const Box plot{box.x0 + canvas.Px(kNames), box.y0, box.x1 - canvas.Px(kValues), box.y0 + height};
  std::optional<HoverText> hover;
  if (plot.Width() < canvas.Px(40)) return hover;
  const TimeAxis axis = AxisOf(fall, plot);
  DrawAxis(canvas, axis);
  const std::vector<std::string> totals =
      SecondsApart(std::array<double, 2>{fall.predicted_s, fall.measured_s});
  DrawTotal(canvas, RowAt(canvas, box, axis, 0), axis, fall.predicted_s, Side::kPredicted, names,
            totals[0]);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const RowBoxes at = RowAt(canvas, box, axis, i + 1);
    DrawDelta(canvas, at, axis, bars[i], fall.predicted_s);
    if (!at.row.Contains(frame.input.x, frame.input.y)) continue;
    hover = HoverText{bars[i].name, bars[i].explained, {}};
    hover->lines.push_back(
        {"adds", SignedTime(bars[i].DeltaS() * kNsPerSecond), ToneOf(bars[i].DeltaS())});
    const double whole = fall.measured_s - fall.predicted_s;
    if (whole != 0.0)
      hover->lines.push_back({"of the error", FormatPercent(bars[i].DeltaS() / whole)});
    if (bars[i].error_s > 0.0) {
      hover->lines.push_back({"sampled, +-", FormatSeconds(bars[i].error_s)});
    }
  }
  DrawTotal(canvas, RowAt(canvas, box, axis, bars.size() + 1), axis, fall.measured_s,
            Side::kMeasured, names, totals[1]);
  return hover;
}

// If parts do not fit, the largest are shown; otherwise they keep the order of TimePart.
std::optional<HoverText> DrawBreakdown(const ScreenFrame& frame, const Box& box,
                                       const StepParts& parts) {
  Canvas& canvas = frame.canvas;
  std::vector<TimePart> shown;
  for (int p = 0; p < kTimePartCount; ++p) {
    if (parts.rank_ns[static_cast<std::size_t>(p)] > 0) shown.push_back(static_cast<TimePart>(p));
  }
  const auto fit =
      static_cast<std::size_t>(std::max(1.0F, (box.Height() - canvas.Px(kAxis)) / canvas.Px(kRow)));
  if (shown.size() > fit) {
    std::stable_sort(shown.begin(), shown.end(),
                     [&](TimePart a, TimePart b) { return parts.Of(a) > parts.Of(b); });
    shown.resize(fit);
  }
  std::int64_t max = 1;
  for (const TimePart part : shown) max = std::max(max, parts.Of(part));
  const Box plot{box.x0 + canvas.Px(kNames), box.y0, box.x1 - canvas.Px(kValues),
                 box.y0 + static_cast<float>(shown.size()) * canvas.Px(kRow)};
  std::optional<HoverText> hover;
  if (plot.Width() < canvas.Px(40)) return hover;
  const double ranks = static_cast<double>(std::max<std::int64_t>(1, parts.ranks));
  const TimeAxis axis{0.0, SecondsFromNs(max) / ranks, plot};
  DrawAxis(canvas, axis);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const RowBoxes at = RowAt(canvas, box, axis, i);
    canvas.TextIn(canvas.fonts.small, at.name, Align::kRight, canvas.theme.muted,
                  std::string(Name(shown[i])));
    const double seconds = parts.Seconds(shown[i]);
    canvas.Fill({plot.x0, at.row.y0 + canvas.Px(4), std::max(plot.x0 + 1.0F, axis.X(seconds)),
                 at.row.y1 - canvas.Px(4)},
                ColourOf(canvas.theme, shown[i]), canvas.Px(1));
    canvas.TextIn(canvas.fonts.mono_small, at.value, Align::kLeft, canvas.theme.text,
                  FormatSeconds(seconds) + "  " + PercentOf(seconds, SecondsFromNs(parts.step_ns)));
    if (at.row.Contains(frame.input.x, frame.input.y)) {
      hover = HoverText{std::string(Name(shown[i])), std::string(Explain(shown[i])), {}};
    }
  }
  return hover;
}

}  // namespace foretrain::ui

#include "ui/view/screens/memory_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 16.0F;
constexpr float kHeading = 44.0F;  // heights
constexpr float kAxis = 22.0F;
constexpr float kRow = 24.0F;
constexpr float kGutter = 84.0F;  // widths
constexpr float kMetrics = 430.0F;
constexpr int kMaxMemoryDigits = 5;
constexpr double kRoom = 1.12;            // above the highest curve
constexpr double kCapacityInSight = 1.6;  // times the highest curve: the scale then reaches to it

// A size below zero too.
std::string SignedBytes(std::int64_t bytes) {
  if (bytes == 0) return "0";
  return (bytes > 0 ? "+" : "-") + FormatBytes(std::abs(bytes));
}

// The top of the scale. It includes the device's capacity only if that is near; otherwise the curve
// would be flat.
double TopOf(const MemoryModel& model) {
  const auto highest = static_cast<double>(model.panel.Highest());
  const auto capacity = static_cast<double>(model.capacity_bytes.value_or(0));
  const bool in_sight = capacity > 0.0 && capacity <= kCapacityInSight * highest;
  return std::max(1.0, kRoom * (in_sight ? std::max(highest, capacity) : highest));
}

// The step of both sides, aligned at its start.
Viewport StepOf(const SidePair& sides) {
  double end = 0.0;
  for (const SideModel& side : sides.sides) {
    if (!side.IsPresent()) continue;
    end = std::max(end, static_cast<double>(side.step_end_ns - side.step_start_ns));
  }
  return Fitted({0.0, end});
}

}  // namespace

// Builds the model again if the runs, the rank or the space changed. The latter two reset
// model_number_.
void MemoryScreen::Refresh() {
  if (model_number_ == desktop_.session.model_number()) return;
  model_number_ = desktop_.session.model_number();
  model_ = BuildMemoryModel(desktop_.session.model().recorded, rank_, space_);
  viewport_ = StepOf(desktop_.session.model().recorded);
  ++made_;
}

// Numbers are shown at the right if the window is wide enough; the plot has priority.
void MemoryScreen::Draw(const ScreenFrame& frame) {
  Refresh();
  live_.Ask(desktop_, model_.panel.space);
  Canvas& canvas = frame.canvas;
  const float margin = canvas.Px(kMargin);
  const Box box{frame.box.x0 + margin, frame.box.y0 + canvas.Px(12), frame.box.x1 - margin,
                frame.box.y1 - canvas.Px(10)};
  // Below 0: no rank has memory samples.
  if (model_.rank < 0) {
    DrawEmpty(canvas, box, model_.notices.empty() ? "No memory is known." : model_.notices.front());
    return;
  }
  const bool wide = box.Width() > canvas.Px(860);
  const float metrics = wide ? canvas.Px(kMetrics) : 0.0F;
  DrawChoices(frame, {box.x0, box.y0, box.x1 - metrics, box.y0 + canvas.Px(kHeading)});
  DrawPlot(frame, {box.x0, box.y0 + canvas.Px(kHeading), box.x1 - metrics - canvas.Px(6), box.y1});
  if (!wide) return;
  const Box side{box.x1 - metrics + margin, box.y0, box.x1, box.y1};
  canvas.Fill({side.x0 - margin, frame.box.y0, side.x0 - margin + 1.0F, frame.box.y1},
              canvas.theme.line);
  DrawMetrics(frame, side);
}

// A space is offered only if something was allocated in it. Ranks are listed with their peaks.
void MemoryScreen::DrawChoices(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  float x = Heading(canvas, {box.x0, box.y0 + canvas.Px(4)}, "memory") + canvas.Px(24);
  if (model_.spaces.size() > 1) {
    std::vector<std::string> names;
    int chosen = 0;
    for (std::size_t i = 0; i < model_.spaces.size(); ++i) {
      names.push_back(InWords(Name(model_.spaces[i])));
      if (model_.spaces[i] == model_.panel.space) chosen = static_cast<int>(i);
    }
    const int before = chosen;
    x = Segments(frame, {x, box.y0}, names, &chosen) + canvas.Px(20);
    if (chosen != before) {
      space_ = model_.spaces[static_cast<std::size_t>(chosen)];
      rank_ = model_.rank;
      model_number_.reset();
    }
  } else {
    x += canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(6)}, canvas.theme.muted,
                     InWords(Name(model_.panel.space))) +
         canvas.Px(20);
  }
  std::vector<std::string> ranks;
  int chosen = 0;
  for (std::size_t i = 0; i < model_.ranks.size(); ++i) {
    const RankPeak& of = model_.ranks[i];
    if (of.rank == model_.rank) chosen = static_cast<int>(i);
    ranks.push_back(fmt::format("rank {}  {}", of.rank, FormatBytes(of.bytes)));
  }
  const float choices = x + canvas.Px(230);
  const Box combo{x - canvas.Px(12), box.y0 - canvas.Px(12), std::min(box.x1, x + canvas.Px(230)),
                  box.y0 + canvas.Px(34)};
  if (combo.Width() < canvas.Px(80)) return;
  BeginPanel(frame, combo, "##memory.rank");
  if (Combo(frame, "##rank", &chosen, ranks)) {
    rank_ = model_.ranks[static_cast<std::size_t>(chosen)].rank;
    model_number_.reset();
  }
  EndPanel();
  DrawKey(canvas, {choices, box.y0, box.x1 - canvas.Px(8), box.y0 + canvas.Px(24)});
}

// Key to areas and line, at the right end of the box. Left out if it does not fit.
void MemoryScreen::DrawKey(Canvas& canvas, const Box& box) {
  const bool measured = model_.panel.Stacked() == Side::kMeasured;
  const std::string areas = measured ? "areas: measured" : "areas: predicted";
  const std::string line = measured && model_.Has(Side::kPredicted) ? "line: predicted" : "";
  const std::string text = line.empty() ? areas : areas + "   " + line;
  if (canvas.WidthOf(canvas.fonts.small, text) > box.Width()) return;
  canvas.TextIn(canvas.fonts.small, box, Align::kRight, canvas.theme.muted, text);
}

// Areas are a texture that is kept until the key changes. Grid, forecast line, capacity and mouse
// are drawn in each frame.
void MemoryScreen::DrawPlot(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const Box area{box.x0 + canvas.Px(kGutter), box.y0, box.x1, box.y1 - canvas.Px(kAxis)};
  if (area.Width() < canvas.Px(40) || area.Height() < canvas.Px(30)) return;
  const MemoryPlot plot{desktop_.session.model().recorded, model_.panel, viewport_, area,
                        TopOf(model_)};
  const PictureKey key{area, viewport_, plot.top_bytes, theme.ground, made_};
  if (key_ != key) {
    picture_ = frame.images.Keep("memory.area", StackedAreas(plot, theme));
    key_ = key;
  }
  // Above the texture: grid, then forecast, capacity and peaks.
  DrawByteGrid(canvas, plot, canvas.Px(40), area.y0 - canvas.Px(8));
  const int ticks = std::max(2, static_cast<int>(area.Width() / canvas.Px(130)));
  for (const Tick& tick : TimeTicks(viewport_.start_ns, viewport_.end_ns, ticks)) {
    const float x = std::round(plot.X(tick.value));
    canvas.Fill({x, area.y0, x + 1.0F, area.y1}, theme.grid);
    canvas.TextIn(canvas.fonts.mono_small, {x - canvas.Px(60), area.y1, x + canvas.Px(60), box.y1},
                  Align::kCentre, theme.faint, tick.label);
  }
  canvas.PushClip(area);
  canvas.Show(picture_, area);
  DrawForecastLine(canvas, plot);
  if (model_.capacity_bytes.has_value()) {
    DrawCapacity(canvas, plot, *model_.capacity_bytes);
    const float y = plot.Y(static_cast<double>(*model_.capacity_bytes));
    if (y >= area.y0) {
      const std::string_view full = "device full";
      const Point at{area.x0 + canvas.Px(8), y + canvas.Px(4)};
      const float width = canvas.WidthOf(canvas.fonts.small, full);
      canvas.Fill({at.x - canvas.Px(4), at.y - 1.0F, at.x + width + canvas.Px(4),
                   at.y + canvas.HeightOf(canvas.fonts.small) + 2.0F},
                  theme.ground, canvas.Px(3));
      canvas.Text(canvas.fonts.small, at, theme.amber, full);
    }
  }
  DrawPeaks(canvas, plot);
  canvas.PopClip();
  canvas.Fill({area.x0, area.y1, area.x1, area.y1 + 1.0F}, theme.line);
  if (!area.Contains(frame.input.x, frame.input.y)) return;
  const double at = viewport_.ToTime(frame.input.x - area.x0, area.Width());
  canvas.Fill({std::round(frame.input.x), area.y0, std::round(frame.input.x) + 1.0F, area.y1},
              Faded(theme.accent, 0.5F));
  // Both sides at the same displayed time; each side's curve is in its own time.
  HoverText hover{PreciseTime(at), "since the step began", {}};
  for (const Side side : kSides) {
    if (!model_.Has(side)) continue;
    const SideModel& of = desktop_.session.model().recorded.Of(side);
    const MemoryLevel level = model_.panel.curves[Index(side)].At(of.Own(at));
    hover.lines.push_back(
        {std::string(desktop_.session.model().NameOf(side)), FormatBytes(level.total_bytes)});
    // Categories and the running op only of the side that is drawn as areas.
    if (side != model_.panel.Stacked()) continue;
    const std::string runs =
        WhatRuns(*of.run, desktop_.session.model().recorded.RankOn(side, model_.rank),
                 std::llround(of.Own(at)));
    if (!runs.empty()) hover.lines.push_back({"while", runs});
    for (std::size_t c = 0; c < kCategoryCount; ++c) {
      if (level.parts[c] == 0) continue;
      hover.lines.push_back({InWords(Name(static_cast<Category>(c))), FormatBytes(level.parts[c])});
    }
  }
  DrawTooltipOnTop(frame, hover);
}

// Returns where the next line starts.
float MemoryScreen::DrawPeakLine(Canvas& canvas, const Box& box, float y, Side side) {
  const Theme& theme = canvas.theme;
  const bool measured = side == Side::kMeasured;
  const float middle = y + canvas.Px(16);
  std::array<std::int64_t, 2> peaks{};
  for (const Side of : kSides) {
    if (model_.Has(of)) peaks[Index(of)] = model_.Peak(of).total_bytes;
  }
  canvas.Dot({box.x0 + canvas.Px(6), middle}, canvas.Px(5),
             measured ? theme.text : theme.predicted);
  if (!measured) canvas.Dot({box.x0 + canvas.Px(6), middle}, canvas.Px(3), theme.ground);
  canvas.Text(canvas.fonts.small, {box.x0 + canvas.Px(22), y}, theme.muted,
              fmt::format("{} peak", desktop_.session.model().NameOf(side)));
  canvas.Text(canvas.fonts.mono_large, {box.x0 + canvas.Px(22), y + canvas.Px(15)}, theme.text,
              BytesApart(peaks, kMaxMemoryDigits)[Index(side)]);
  const std::string& where = model_.at_peak[Index(side)];
  const float x = box.x0 + canvas.Px(150);
  canvas.Text(canvas.fonts.small, {x, y}, theme.muted,
              "at " + PreciseTime(desktop_.session.model().recorded.Of(side).Displayed(
                          model_.Peak(side).time_ns)));
  canvas.Text(canvas.fonts.small, {x, y + canvas.Px(20)}, theme.text,
              Shortened(canvas, canvas.fonts.small, where, box.x1 - x));
  return y + canvas.Px(48);
}

// Peaks, headroom, notices, categories, then the live tensors, which take the rest of the box.
void MemoryScreen::DrawMetrics(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  canvas.PushClip(box);
  float y = box.y0 + canvas.Px(2);
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (model_.Has(side)) y = DrawPeakLine(canvas, box, y, side);
  }
  // Absent if the device's memory is unknown.
  const std::optional<std::int64_t> headroom = model_.HeadroomBytes();
  if (headroom.has_value()) {
    const bool fits = *headroom >= 0;
    const auto share = static_cast<float>(1.0 - static_cast<double>(*headroom) /
                                                    static_cast<double>(*model_.capacity_bytes));
    canvas.Text(canvas.fonts.small, {box.x0, y}, theme.muted,
                "device holds " + FormatBytes(*model_.capacity_bytes));
    canvas.TextIn(canvas.fonts.mono_small, {box.x0, y - canvas.Px(2), box.x1, y + canvas.Px(18)},
                  Align::kRight, fits ? theme.text : theme.amber,
                  (fits ? "free " : "over by ") + FormatBytes(std::abs(*headroom)));
    y += canvas.Px(20);
    const Box bar{box.x0, y, box.x1, y + canvas.Px(8)};
    canvas.Fill(bar, Mixed(theme.panel, theme.text, 0.08F), canvas.Px(3));
    canvas.Fill({bar.x0, bar.y0, bar.x0 + std::clamp(share, 0.0F, 1.0F) * bar.Width(), bar.y1},
                fits ? theme.muted : theme.amber, canvas.Px(3));
    y += canvas.Px(24);
  }
  for (const std::string& notice : model_.notices) {
    canvas.Text(canvas.fonts.small, {box.x0, y}, theme.amber,
                Shortened(canvas, canvas.fonts.small, notice, box.Width()));
    y += canvas.Px(20);
  }
  y = DrawRows(frame, box, y + canvas.Px(4));
  live_.Draw(frame, {box.x0, y + canvas.Px(14), box.x1, box.y1}, model_.rank);
  canvas.PopClip();
}

// One row for each category that either side has. The error is measured minus predicted.
float MemoryScreen::DrawRows(const ScreenFrame& frame, const Box& box, float y) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const bool both = model_.Has(Side::kPredicted) && model_.Has(Side::kMeasured);
  const float column = canvas.Px(86);
  const auto cell = [&](int from_right) {
    const float right = box.x1 - static_cast<float>(from_right) * column;
    return Box{right - column, y, right, y + canvas.Px(kRow)};
  };
  canvas.TextIn(canvas.fonts.bold, {box.x0, y, box.x1, y + canvas.Px(kRow)}, Align::kLeft,
                theme.text, "live at the peak");
  int columns = 0;
  if (both) canvas.TextIn(canvas.fonts.small, cell(columns++), Align::kRight, theme.muted, "error");
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (!model_.Has(side)) continue;
    canvas.TextIn(canvas.fonts.small, cell(columns++), Align::kRight, theme.muted,
                  desktop_.session.model().NameOf(side));
  }
  y += canvas.Px(kRow);
  for (const CategoryRow& row : model_.rows) {
    canvas.Fill({box.x0, y, box.x1, y + 1.0F}, theme.grid);
    const float middle = y + canvas.Px(kRow) / 2;
    DrawCategorySwatch(
        canvas, row.category,
        {box.x0, middle - canvas.Px(5), box.x0 + canvas.Px(10), middle + canvas.Px(5)});
    canvas.TextIn(canvas.fonts.small, {box.x0 + canvas.Px(18), y, box.x1, y + canvas.Px(kRow)},
                  Align::kLeft, theme.text, InWords(Name(row.category)));
    columns = 0;
    if (both) {
      const std::int64_t error = row.ErrorBytes().value_or(0);
      canvas.TextIn(
          canvas.fonts.mono_small, cell(columns++), Align::kRight,
          error == 0 ? theme.faint : ToneColour(theme, ToneOf(static_cast<double>(error))),
          SignedBytes(error));
    }
    const std::vector<std::string> texts =
        BytesApart(std::array<std::int64_t, 2>{row.bytes[0].value_or(0), row.bytes[1].value_or(0)},
                   kMaxMemoryDigits);
    for (const Side side : {Side::kMeasured, Side::kPredicted}) {
      if (!model_.Has(side)) continue;
      canvas.TextIn(canvas.fonts.mono_small, cell(columns++), Align::kRight,
                    side == Side::kMeasured ? theme.text : theme.muted, texts[Index(side)]);
    }
    y += canvas.Px(kRow);
  }
  return y;
}

std::vector<HelpLine> MemoryScreen::Help() const {
  return {{"rank", "whose memory is shown; the fullest at first"},
          {"device, pinned, host, nvme", "where it lies"},
          {"mouse over the picture", "what is live then, and what runs"}};
}

}  // namespace foretrain::ui

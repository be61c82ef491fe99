#include "ui/view/screens/ranks_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/panels/rank_panels.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 16.0F;
constexpr float kNames = 86.0F;  // widths
constexpr float kMetrics = 210.0F;
constexpr float kTallestRow = 62.0F;  // heights
constexpr float kNamedRow = 13.0F;    // with a name and metrics; lower rows have none
constexpr float kWidestCell = 90.0F;
constexpr std::size_t kMaxSentences = 3;
constexpr float kMinMap = 150.0F;  // heights and widths from which the panels are drawn
constexpr float kMinPanels = 250.0F;
constexpr float kMinWidth = 760.0F;
constexpr float kMapRow = 26.0F;      // tallest row above the panels
constexpr std::size_t kMaxTold = 32;  // ranks whose cause is told
constexpr double kMinOfStep = 0.01;   // of the median step: a smaller difference is no straggler's

// Places are dealt out like the cells of a FoldedRankMap.
float EdgeOf(float from, float to, std::size_t i, std::size_t count) {
  return std::round(from + (to - from) * static_cast<float>(i) / static_cast<float>(count));
}

}  // namespace

// Builds the map and its sentences again if the runs or the metric changed. O(ranks x steps).
void RanksScreen::Refresh() {
  const std::pair of(desktop_.session.input_number(), metric_);
  if (made_of_ == of) return;
  made_of_ = of;
  const SideModel& shown = desktop_.session.model().Of(desktop_.session.model().Shown());
  const auto metric = static_cast<RankMetric>(metric_);
  map_ = MakeRankMap(shown, metric);
  const bool bytes = metric == RankMetric::kPeakMemory;
  // A rank is a straggler only if it is late by a visible part of the step; memory has no such
  // floor.
  const double step_ns = shown.IsPresent() ? shown.metrics->step_time_s.median * kNsPerSecond : 0.0;
  min_ = bytes ? 0.0 : kMinOfStep * step_ns;
  stragglers_ = StragglersOf(map_, min_);
  sentences_.clear();
  if (shown.IsPresent() && shown.run->sums != nullptr && metric != RankMetric::kStepTime) {
    sentences_.push_back(
        "known of the steps alone whose spans are read: of a long run those that "
        "Compare shows");
  }
  for (const Straggler& straggler : stragglers_) {
    if (sentences_.size() == kMaxSentences) {
      sentences_.push_back(fmt::format("and {} more ranks", stragglers_.size() - kMaxSentences));
      break;
    }
    sentences_.push_back(Describe(straggler, metric));
  }
  // Says that nothing was found, so that the reader need not search the map.
  if (map_.ranks.size() > 1 && map_.HasScale() && stragglers_.empty()) {
    sentences_.push_back(fmt::format("no rank's median lies {} or more over the others'",
                                     FormatPercent(kStragglerShare)));
  }
}

// The table, its causes and the links depend on the chosen steps too. O(spans of the step).
void RanksScreen::RefreshPanels() {
  const std::pair of(desktop_.session.model_number(), metric_);
  if (panels_of_ == of) return;
  panels_of_ = of;
  const CompareModel& model = desktop_.session.model();
  entries_ = RankTableOf(model, map_, min_, kMaxTold);
  links_ = LinkTableOf(model);
  const bool known = std::any_of(entries_.begin(), entries_.end(),
                                 [this](const RankEntry& entry) { return entry.rank == chosen_; });
  Choose(known || entries_.empty() ? chosen_ : entries_.front().rank);
}

void RanksScreen::Choose(int rank) {
  chosen_ = rank;
  series_ = RankSeriesOf(map_, rank);
}

// Missing values have the colour of an empty lane, so that they cannot be taken for small ones.
Colour RanksScreen::ColourOf(const Theme& theme, double value) const {
  if (!std::isfinite(value)) return theme.lane;
  // From the ground to a light amber: one hue, its lightness says how much.
  const auto shade = static_cast<float>(map_.Shade(value));
  const Colour low = Mixed(theme.ground, theme.Of(Hue::kForward), 0.28F);
  const Colour middle = theme.Of(Hue::kBackward);
  const Colour high = theme.Of(Hue::kPointToPoint);
  return shade < 0.5F ? Mixed(low, middle, 2 * shade) : Mixed(middle, high, 2 * shade - 1.0F);
}

// Heading, metrics and scale share a line if they fit. The scale goes first, then the metrics move
// to a line of their own.
void RanksScreen::Draw(const ScreenFrame& frame) {
  Refresh();
  Canvas& canvas = frame.canvas;
  const float margin = canvas.Px(kMargin);
  const Box box{frame.box.x0 + margin, frame.box.y0 + canvas.Px(12), frame.box.x1 - margin,
                frame.box.y1 - canvas.Px(10)};
  plot_ = {};
  float x =
      Heading(canvas, {box.x0, box.y0 + canvas.Px(4)}, "ranks",
              desktop_.session.model().Shown() == Side::kMeasured ? "as measured" : "as forecast");
  std::vector<std::string> names;
  for (int i = 0; i < kRankMetricCount; ++i) {
    names.emplace_back(Name(static_cast<RankMetric>(i)));
  }
  const float width = SegmentsWidth(canvas, names);
  float y = box.y0;
  if (x + canvas.Px(20) + width <= box.x1) {
    Segments(frame, {x + canvas.Px(20), y}, names, &metric_);
  } else {
    y += canvas.Px(30);
    Segments(frame, {box.x0, y}, names, &metric_);
  }
  x += canvas.Px(20) + width + canvas.Px(28);
  if (x + canvas.Px(300) < box.x1 && y == box.y0) DrawScale(canvas, {x, y}, box.x1 - x);
  y += canvas.Px(34);
  if (map_.ranks.empty() || map_.steps.empty()) {
    DrawEmpty(canvas, box, "There are no steps to show: no run, or one without spans.");
    return;
  }
  if (!map_.HasScale()) {
    DrawEmpty(canvas, box, fmt::format("No {} was recorded.", Name(map_.metric)));
    return;
  }
  RefreshPanels();
  const float room = box.y1 - y;
  panels_ = room >= canvas.Px(kMinMap + kMinPanels) && box.Width() >= canvas.Px(kMinWidth);
  // The table names stragglers with their cause; sentences are for windows without room for it.
  if (!panels_ || stragglers_.empty()) y = DrawSentences(canvas, box, y);
  y += canvas.Px(6);
  if (!panels_) return DrawMap(frame, {box.x0, y, box.x1, box.y1});
  const float rows = canvas.Px(20.0F + kMapRow * static_cast<float>(map_.ranks.size()));
  const float map = std::clamp(rows, canvas.Px(60), std::floor(0.45F * (box.y1 - y)));
  DrawMap(frame, {box.x0, y, box.x1, y + map});
  DrawPanels(frame, {box.x0, y + map + canvas.Px(12), box.x1, box.y1});
}

// The table of ranks at the left; at the right one rank over the steps, and links.
void RanksScreen::DrawPanels(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const CompareModel& model = desktop_.session.model();
  const std::string_view reference =
      model.HasBoth() ? model.NameOf(Other(model.Shown())) : std::string_view();
  const float middle = std::round(box.x0 + 0.58F * box.Width());
  const float gap = canvas.Px(12);
  canvas.Fill({frame.box.x0, box.y0 - canvas.Px(6), frame.box.x1, box.y0 - canvas.Px(5)},
              canvas.theme.line);
  Box table = box, right = box;
  table.x0 -= gap;  // the panel has a margin of its own
  table.x1 = middle;
  right.x0 = middle + gap;
  const auto clicked = DrawRankTable(frame, table, entries_, map_.metric, reference, chosen_);
  if (clicked.has_value()) Choose(*clicked);
  canvas.Fill({middle, box.y0, middle + 1.0F, box.y1}, canvas.theme.line);
  const float links =
      canvas.Px(58.0F + 25.0F * static_cast<float>(std::max<std::size_t>(1, links_.size())));
  Box series = right;
  series.y1 = right.y1 - std::min(links, std::floor(0.5F * right.Height()));
  DrawRankSeries(canvas, series, map_, series_, chosen_);
  DrawLinkTable(frame, {right.x0 - gap, series.y1, right.x1, right.y1}, links_, model.Shown(),
                reference);
}

// Returns where the map starts.
float RanksScreen::DrawSentences(Canvas& canvas, const Box& box, float y) {
  for (const std::string& sentence : sentences_) {
    canvas.Text(canvas.fonts.small, {box.x0, y},
                stragglers_.empty() ? canvas.theme.muted : canvas.theme.amber,
                Shortened(canvas, canvas.fonts.small, sentence, box.Width()));
    y += canvas.Px(19);
  }
  return y;
}

// The bar runs from the smallest to the largest value that counts; warm-up steps do not.
void RanksScreen::DrawScale(Canvas& canvas, Point at, float width) {
  if (!map_.HasScale()) return;
  const std::string low = FormatMetric(map_.metric, map_.min);
  const std::string high = FormatMetric(map_.metric, map_.max);
  const float text = at.y + canvas.Px(5);
  float x = at.x + canvas.Text(canvas.fonts.mono_small, {at.x, text}, canvas.theme.muted, low) +
            canvas.Px(8);
  const float bar =
      std::min(canvas.Px(180),
               width - (x - at.x) - canvas.WidthOf(canvas.fonts.mono_small, high) - canvas.Px(10));
  constexpr int kSteps = 24;
  for (int i = 0; i < kSteps; ++i) {
    const double value = map_.min + (map_.max - map_.min) * i / (kSteps - 1);
    canvas.Fill(
        {EdgeOf(x, x + bar, static_cast<std::size_t>(i), kSteps), at.y + canvas.Px(5),
         EdgeOf(x, x + bar, static_cast<std::size_t>(i) + 1, kSteps), at.y + canvas.Px(17)},
        map_.max > map_.min ? ColourOf(canvas.theme, value) : ColourOf(canvas.theme, map_.min));
  }
  canvas.Text(canvas.fonts.mono_small, {x + bar + canvas.Px(8), text}, canvas.theme.muted, high);
}

// Folds the map to at least two pixels a cell, then places names, cells and values into the
// remaining boxes. A tall map has names only at every n-th row.
void RanksScreen::DrawMap(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const float metrics = box.Width() > canvas.Px(560) ? canvas.Px(kMetrics) : 0.0F;
  const Box room{box.x0 + canvas.Px(kNames), box.y0 + canvas.Px(20), box.x1 - metrics, box.y1};
  if (room.Width() < 8.0F || room.Height() < 8.0F) return;
  // A cell has at least two pixels each way.
  const FoldedRankMap folded = Fold(map_, static_cast<std::size_t>(room.Height() / 2),
                                    static_cast<std::size_t>(room.Width() / 2));
  plot_ = {room.x0, room.y0,
           std::min(room.x1, room.x0 + static_cast<float>(folded.columns) * canvas.Px(kWidestCell)),
           std::min(room.y1, room.y0 + static_cast<float>(folded.rows) *
                                           canvas.Px(panels_ ? kMapRow : kTallestRow))};
  DrawStepNames(canvas, folded);
  DrawCells(frame, folded);
  DrawValues(canvas, folded);
  const float height = plot_.Height() / static_cast<float>(folded.rows);
  const auto every =
      static_cast<std::size_t>(std::max(1.0F, std::ceil(canvas.Px(kNamedRow) / height)));
  for (std::size_t row = 0; row < folded.rows; row += every) {
    const float y0 = EdgeOf(plot_.y0, plot_.y1, row, folded.rows);
    const float y1 = EdgeOf(plot_.y0, plot_.y1, row + 1, folded.rows);
    DrawRankRow(canvas, folded, row, {box.x0, y0, plot_.x0 - canvas.Px(8), y1},
                {plot_.x1 + canvas.Px(12), y0, plot_.x1 + metrics, y1});
  }
  if (metrics > 0.0F && folded.rows > 0) {
    canvas.Text(canvas.fonts.small, {plot_.x1 + canvas.Px(12), box.y0}, canvas.theme.muted,
                "median      spread");
  }
  OnCell(frame, folded);
}

// Warm-up steps are paler, because neither medians nor the scale count them.
void RanksScreen::DrawStepNames(Canvas& canvas, const FoldedRankMap& folded) {
  const float width = plot_.Width() / static_cast<float>(folded.columns);
  const auto every = static_cast<std::size_t>(std::max(1.0F, std::ceil(canvas.Px(44) / width)));
  canvas.Text(canvas.fonts.small, {plot_.x0 - canvas.Px(40), plot_.y0 - canvas.Px(20)},
              canvas.theme.muted, "step");
  for (std::size_t c = 0; c < folded.columns; c += every) {
    const std::size_t first = (c * map_.steps.size() + folded.columns - 1) / folded.columns;
    const float x = EdgeOf(plot_.x0, plot_.x1, c, folded.columns);
    canvas.Text(canvas.fonts.mono_small, {x + canvas.Px(2), plot_.y0 - canvas.Px(19)},
                map_.counted[first] ? canvas.theme.muted : canvas.theme.faint,
                fmt::format("{}", map_.steps[first]));
  }
}

// Stragglers are amber. The median and its spread stand at the right if there is room.
void RanksScreen::DrawRankRow(Canvas& canvas, const FoldedRankMap& folded, std::size_t row,
                              const Box& names, const Box& metrics) {
  const Theme& theme = canvas.theme;
  const std::size_t first = (row * map_.ranks.size() + folded.rows - 1) / folded.rows;
  const RankRow& of = map_.rows[first];
  const bool slow = std::any_of(stragglers_.begin(), stragglers_.end(),
                                [&](const Straggler& s) { return s.rank == of.rank; });
  canvas.TextIn(canvas.fonts.small, names, Align::kRight, slow ? theme.amber : theme.text,
                fmt::format("rank {}", of.rank));
  if (metrics.IsEmpty() || of.steps == 0) return;
  const float half = canvas.Px(72);
  canvas.TextIn(canvas.fonts.mono_small, {metrics.x0, metrics.y0, metrics.x0 + half, metrics.y1},
                Align::kLeft, slow ? theme.amber : theme.text,
                FormatMetric(map_.metric, of.median));
  canvas.TextIn(canvas.fonts.mono_small, {metrics.x0 + half, metrics.y0, metrics.x1, metrics.y1},
                Align::kLeft, theme.muted, FormatPercent(of.spread));
}

// The map is a texture, kept until map, place or theme changes.
void RanksScreen::DrawCells(const ScreenFrame& frame, const FoldedRankMap& folded) {
  Canvas& canvas = frame.canvas;
  const float height = plot_.Height() / static_cast<float>(folded.rows);
  const float width = plot_.Width() / static_cast<float>(folded.columns);
  const std::tuple key(*made_of_, plot_, canvas.theme.ground);
  if (picture_of_ == key) return canvas.Show(picture_, plot_);
  picture_of_ = key;
  // A texture: as many cells as pixels cost no more than a few.
  Image image;
  image.Resize(static_cast<int>(plot_.Width()), static_cast<int>(plot_.Height()),
               canvas.theme.ground);
  const int gap_x = width >= canvas.Px(6) ? 1 : 0, gap_y = height >= canvas.Px(6) ? 1 : 0;
  for (std::size_t r = 0; r < folded.rows; ++r) {
    const int y0 = static_cast<int>(EdgeOf(0.0F, plot_.Height(), r, folded.rows));
    const int y1 = static_cast<int>(EdgeOf(0.0F, plot_.Height(), r + 1, folded.rows)) - gap_y;
    for (std::size_t c = 0; c < folded.columns; ++c) {
      const int x0 = static_cast<int>(EdgeOf(0.0F, plot_.Width(), c, folded.columns));
      const int x1 = static_cast<int>(EdgeOf(0.0F, plot_.Width(), c + 1, folded.columns)) - gap_x;
      const Colour colour = ColourOf(canvas.theme, folded.At(r, c).value);
      image.FillBox(x0, y0, x1, y1, colour);
    }
  }
  picture_ = frame.images.Keep("ranks.map", image);
  canvas.Show(picture_, plot_);
}

// Writes values into the cells if the widest one fits.
void RanksScreen::DrawValues(Canvas& canvas, const FoldedRankMap& folded) {
  const float height = plot_.Height() / static_cast<float>(folded.rows);
  const float width = plot_.Width() / static_cast<float>(folded.columns);
  const std::string widest = FormatMetric(map_.metric, map_.max);
  if (height < canvas.Px(16) ||
      width < canvas.WidthOf(canvas.fonts.mono_small, widest) + canvas.Px(10)) {
    return;
  }
  for (std::size_t r = 0; r < folded.rows; ++r) {
    for (std::size_t c = 0; c < folded.columns; ++c) {
      const double value = folded.At(r, c).value;
      if (!std::isfinite(value)) continue;
      const Box cell{EdgeOf(plot_.x0, plot_.x1, c, folded.columns),
                     EdgeOf(plot_.y0, plot_.y1, r, folded.rows),
                     EdgeOf(plot_.x0, plot_.x1, c + 1, folded.columns),
                     EdgeOf(plot_.y0, plot_.y1, r + 1, folded.rows)};
      // Black or white stands out from any colour.
      canvas.TextIn(canvas.fonts.mono_small, cell, Align::kCentre,
                    Readable(ColourOf(canvas.theme, value), Rgb(0x000000), Rgb(0xffffff)),
                    FormatMetric(map_.metric, value));
    }
  }
}

// The tooltip of the cell under the mouse. A folded cell shows the largest value that it stands
// for, so that no straggler is hidden.
void RanksScreen::OnCell(const ScreenFrame& frame, const FoldedRankMap& folded) {
  if (!plot_.Contains(frame.input.x, frame.input.y)) return;
  const auto place = [](float at, float from, float to, std::size_t count) {
    const float share = (at - from) / (to - from);
    return std::min(count - 1, static_cast<std::size_t>(share * static_cast<float>(count)));
  };
  const RankCell& cell = folded.At(place(frame.input.y, plot_.y0, plot_.y1, folded.rows),
                                   place(frame.input.x, plot_.x0, plot_.x1, folded.columns));
  const RankRow& row = map_.rows[cell.rank];
  HoverText hover{fmt::format("rank {}, step {}", row.rank, map_.steps[cell.step]),
                  folded.rows < map_.ranks.size() || folded.columns < map_.steps.size()
                      ? "the highest of the ranks and steps that share this place"
                      : "a click shows it in Compare",
                  {}};
  hover.lines.push_back({std::string(Name(map_.metric)), FormatMetric(map_.metric, cell.value)});
  if (row.steps > 0) {
    hover.lines.push_back({"rank's median", FormatMetric(map_.metric, row.median)});
    hover.lines.push_back({"its spread", FormatPercent(row.spread)});
  }
  if (map_.median > 0.0 && std::isfinite(cell.value)) {
    hover.lines.push_back({"all ranks' median", FormatMetric(map_.metric, map_.median)});
    const double over = cell.value / map_.median - 1.0;
    hover.lines.push_back({"over that", fmt::format("{:+.1f} %", 100.0 * over)});
  }
  if (!map_.counted[cell.step])
    hover.lines.push_back({"warms up", "left out of medians and scale"});
  DrawTooltipOnTop(frame, hover);
  if (!frame.input.pressed) return;
  desktop_.navigation.GoTo(RankPlace{row.rank, map_.steps[cell.step]});
}

std::vector<HelpLine> RanksScreen::Help() const {
  return {{"step time to peak memory", "choose the metric"},
          {"click on a row", "draw that rank over the steps"},
          {"mouse over a cell", "its values"},
          {"click on a cell", "that rank in that step in Compare"}};
}

}  // namespace foretrain::ui

#include "ui/view/panels/rank_panels.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/ranks/lane_list.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

enum class Column : std::uint8_t {
  kRank,
  kStage,
  kPlace,
  kRanks,
  kMedian,
  kExcess,
  kForecast,
  kCompute,
  kWait,
  kCause
};

struct Shape {
  Column column;
  std::string title;
  float width;  // about, at scale 1
  int kept;     // priority in a narrow table: the lowest go first
};

// The columns that `width` holds. Those without any value are left out.
std::vector<Shape> ColumnsFor(const std::vector<RankEntry>& entries, RankMetric metric,
                              std::string_view reference, float width) {
  const auto any = [&entries](auto has) {
    return std::any_of(entries.begin(), entries.end(), has);
  };
  std::vector<Shape> columns{{Column::kRank, "rank", 84.0F, 9}};
  const auto add = [&columns](bool has, Shape shape) {
    if (has) columns.push_back(std::move(shape));
  };
  add(any([](const RankEntry& e) { return !e.stage.empty(); }),
      {Column::kStage, "stage", 70.0F, 3});
  add(any([](const RankEntry& e) { return !e.place.empty(); }),
      {Column::kPlace, "runs on", 136.0F, 4});
  add(any([](const RankEntry& e) { return e.stands_for > 1; }),
      {Column::kRanks, "stands for", 100.0F, 5});
  columns.push_back({Column::kMedian, "median", 90.0F, 8});
  columns.push_back({Column::kExcess, "over others", 96.0F, 7});
  add(any([](const RankEntry& e) { return e.forecast.has_value(); }),
      {Column::kForecast, std::string(reference), 90.0F, 5});
  const bool split = any([](const RankEntry& e) { return e.compute_ns.has_value(); });
  add(split && metric != RankMetric::kCompute, {Column::kCompute, "computes", 90.0F, 2});
  add(split && metric != RankMetric::kWait, {Column::kWait, "waits", 90.0F, 1});
  add(any([](const RankEntry& e) { return !e.cause.empty(); }), {Column::kCause, "why", 150.0F, 6});
  const auto sum = [&columns] {
    float all = 0.0F;
    for (const Shape& shape : columns) all += shape.width;
    return all;
  };
  while (columns.size() > 2 && sum() > width) {
    columns.erase(std::min_element(columns.begin(), columns.end(),
                                   [](const Shape& a, const Shape& b) { return a.kept < b.kept; }));
  }
  return columns;
}

// The reason gets the width that the other columns leave; all of it is shown under the mouse.
void DrawCause(const ScreenFrame& frame, const RankEntry& entry) {
  ImGui::TableNextColumn();
  const float room = ImGui::GetWindowPos().x + ImGui::GetWindowWidth() -
                     ImGui::GetCursorScreenPos().x - frame.canvas.Px(24);
  const std::string text = Shortened(frame.canvas, frame.canvas.fonts.text, entry.cause, room);
  Label(frame, text);
  if (text != entry.cause) Tooltip(frame, entry.cause);
}

void DrawCell(const ScreenFrame& frame, const RankEntry& entry, RankMetric metric, Column column) {
  const Theme& theme = frame.canvas.theme;
  switch (column) {
    case Column::kRank:
      return;
    case Column::kStage:
      return Cell(frame, entry.stage);
    case Column::kPlace:
      return Cell(frame, entry.place);
    case Column::kRanks:
      return NumberCell(frame, RanksText(entry.stands_for));
    case Column::kMedian:
      return NumberCell(frame, FormatMetric(metric, entry.median));
    case Column::kExcess:
      return NumberCell(frame,
                        entry.others > 0.0 ? fmt::format("{:+.1f} %", 100.0 * entry.Excess()) : "",
                        entry.straggler ? theme.amber : theme.muted);
    case Column::kForecast:
      return NumberCell(frame, entry.forecast ? FormatMetric(metric, *entry.forecast) : "",
                        theme.muted);
    case Column::kCompute:
      return NumberCell(frame, entry.compute_ns ? FormatSeconds(*entry.compute_ns / kNsPerSecond)
                                                : std::string());
    case Column::kWait:
      return NumberCell(
          frame, entry.wait_ns ? FormatSeconds(*entry.wait_ns / kNsPerSecond) : std::string());
    case Column::kCause:
      return DrawCause(frame, entry);
  }
}

std::string RateText(const std::optional<double>& bytes_per_s) {
  return bytes_per_s.has_value() ? FormatSi(*bytes_per_s, "B/s") : std::string();
}

}  // namespace

std::optional<int> DrawRankTable(const ScreenFrame& frame, const Box& box,
                                 const std::vector<RankEntry>& entries, RankMetric metric,
                                 std::string_view reference, int chosen) {
  std::optional<int> clicked;
  const std::vector<Shape> columns = ColumnsFor(
      entries, metric, reference, (box.Width() - frame.canvas.Px(30)) / frame.canvas.scale);
  std::vector<std::string> titles;
  for (const Shape& shape : columns) titles.push_back(shape.title);
  BeginPanel(frame, box, "##ranks.table");
  const std::string id = fmt::format("ranks {}", columns.size());
  if (BeginTable(frame, id.c_str(), titles)) {
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(entries.size()));
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const RankEntry& entry = entries[static_cast<std::size_t>(i)];
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        const std::string name = fmt::format("rank {}", entry.rank);
        if (SelectableRow(frame, name, entry.rank == chosen)) clicked = entry.rank;
        for (std::size_t c = 1; c < columns.size(); ++c) {
          DrawCell(frame, entry, metric, columns[c].column);
        }
      }
    }
    EndTable();
  }
  EndPanel();
  return clicked;
}

void DrawRankSeries(Canvas& canvas, const Box& box, const RankMap& map, const RankSeries& series,
                    int rank) {
  const Theme& theme = canvas.theme;
  const float left = canvas.Px(76);
  const Box plot{box.x0 + left, box.y0 + canvas.Px(22), box.x1 - canvas.Px(6),
                 box.y1 - canvas.Px(18)};
  if (plot.Height() < canvas.Px(36) || plot.Width() < canvas.Px(80) || map.steps.empty()) return;
  const auto x_of = [&](std::size_t step) {
    const std::size_t last = std::max<std::size_t>(1, map.steps.size() - 1);
    return plot.x0 + plot.Width() * static_cast<float>(step) / static_cast<float>(last);
  };
  const auto y_of = [&](double value) {
    const double share = (value - series.low) / (series.high - series.low);
    return plot.y1 - static_cast<float>(std::clamp(share, 0.0, 1.0)) * plot.Height();
  };
  for (const double share : {0.0, 0.5, 1.0}) {
    const double value = series.low + share * (series.high - series.low);
    const float y = std::round(y_of(value));
    canvas.Fill({plot.x0, y, plot.x1, y + 1.0F}, theme.grid);
    canvas.TextIn(canvas.fonts.mono_small,
                  {box.x0, y - canvas.Px(8), plot.x0 - canvas.Px(8), y + canvas.Px(8)},
                  Align::kRight, theme.muted, FormatMetric(map.metric, value));
  }
  // A line through known values; a single one is a dot.
  const auto draw = [&](const std::vector<double>& values, Colour colour, float thickness) {
    std::vector<Point> points;
    const auto flush = [&] {
      if (points.size() == 1) canvas.Dot(points[0], canvas.Px(3), colour);
      canvas.Lines(points, colour, thickness);
      points.clear();
    };
    for (std::size_t s = 0; s < values.size(); ++s) {
      if (std::isfinite(values[s])) {
        points.push_back({x_of(s), y_of(values[s])});
      } else {
        flush();
      }
    }
    flush();
  };
  draw(series.highest, theme.faint, canvas.scale);
  draw(series.medians, theme.predicted, 1.5F * canvas.scale);
  draw(series.chosen, theme.amber, 2.0F * canvas.scale);
  float x = box.x0;
  const std::array<std::pair<std::string, Colour>, 3> names{
      {{fmt::format("rank {}", rank), theme.amber},
       {"median of all", theme.predicted},
       {"highest", theme.faint}}};
  for (const auto& [name, colour] : names) {
    canvas.Fill({x, box.y0 + canvas.Px(7), x + canvas.Px(12), box.y0 + canvas.Px(9)}, colour);
    x += canvas.Px(18);
    x += canvas.Text(canvas.fonts.small, {x, box.y0}, theme.muted, name) + canvas.Px(16);
  }
  const std::string first = fmt::format("step {}", map.steps.front());
  const std::string last = fmt::format("{}", map.steps.back());
  canvas.Text(canvas.fonts.mono_small, {plot.x0, plot.y1 + canvas.Px(3)}, theme.muted, first);
  if (map.steps.size() > 1) {
    canvas.TextIn(canvas.fonts.mono_small,
                  {plot.x1 - canvas.Px(60), plot.y1 + canvas.Px(2), plot.x1, box.y1}, Align::kRight,
                  theme.muted, last);
  }
}

void DrawLinkTable(const ScreenFrame& frame, const Box& box, const std::vector<LinkRow>& links,
                   Side shown, std::string_view reference) {
  Canvas& canvas = frame.canvas;
  if (links.empty()) {
    return DrawEmpty(canvas, box, "No communication in this step.");
  }
  const bool both = !reference.empty();
  const bool wide = box.Width() >= canvas.Px(620), bytes = box.Width() >= canvas.Px(500);
  std::vector<std::string> titles{"communication"};
  if (wide) titles.emplace_back("link");
  if (bytes) titles.emplace_back("bytes a rank");
  titles.emplace_back("rate");
  if (both) titles.emplace_back(reference);
  titles.emplace_back("slowest rank");
  BeginPanel(frame, box, "##ranks.links");
  if (BeginTable(frame, fmt::format("links {}", titles.size()).c_str(), titles)) {
    for (const LinkRow& row : links) {
      ImGui::TableNextRow();
      Cell(frame, InWords(Name(row.op_class)));
      if (wide) Cell(frame, row.reach);
      if (bytes) NumberCell(frame, FormatBytes(std::llround(row.bytes)));
      NumberCell(frame, RateText(row.bytes_per_s[Index(shown)]));
      if (both)
        NumberCell(frame, RateText(row.bytes_per_s[Index(Other(shown))]), canvas.theme.muted);
      NumberCell(frame,
                 row.slowest.has_value()
                     ? fmt::format("{}: {}", *row.slowest, FormatSi(row.slowest_bytes_per_s, "B/s"))
                     : std::string(),
                 canvas.theme.muted);
    }
    EndTable();
  }
  EndPanel();
}

}  // namespace foretrain::ui

#include "ui/view/panels/workbench_panels.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/planning/plan_list.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kRow = 26.0F;
constexpr float kMemory = 120.0F;  // width of the column

std::string SignedBytes(std::int64_t bytes) {
  if (bytes == 0) return "0";
  return (bytes > 0 ? "+" : "-") + FormatBytes(std::abs(bytes));
}

// One row of the waterfall.
struct Fall {
  std::string name{};
  std::string value{};
  double from = 0;
  double to = 0;
  bool total = false;
  std::int64_t memory_bytes = 0;
  bool fits = true;
};

std::vector<Fall> FallsOf(const ExplainedDifference& explained) {
  const std::vector<std::string> ends =
      SecondsApart(std::vector<double>{explained.before.step_s, explained.after.step_s});
  std::vector<Fall> falls{{"pinned", ends[0], 0, explained.before.step_s, true,
                           explained.before.device.Total(), explained.before.Fits()}};
  double at = explained.before.step_s;
  for (const ChangeEffect& effect : explained.effects) {
    falls.push_back({effect.text, SignedTime(effect.step_s * kNsPerSecond), at, at + effect.step_s,
                     false, effect.memory_bytes, effect.fits});
    at += effect.step_s;
  }
  falls.push_back({"now", ends[1], 0, explained.after.step_s, true, explained.after.device.Total(),
                   explained.after.Fits()});
  return falls;
}

// One chart of a sweep.
struct Chart {
  std::string title{};
  std::function<double(const SweepPoint&)> value{};
  std::function<std::string(double)> text{};
  double limit = 0;  // a line; 0: none
};

void DrawChart(Canvas& canvas, const Box& box, const PlanSweep& sweep, const Chart& chart) {
  const Theme& theme = canvas.theme;
  canvas.Text(canvas.fonts.small, {box.x0, box.y0}, theme.text,
              Shortened(canvas, canvas.fonts.small, chart.title, box.Width()));
  const Box plot{box.x0 + canvas.Px(66), box.y0 + canvas.Px(26), box.x1 - canvas.Px(10),
                 box.y1 - canvas.Px(22)};
  if (plot.Width() < canvas.Px(60) || plot.Height() < canvas.Px(40)) return;
  double high = chart.limit;
  for (const SweepPoint& point : sweep.points) {
    if (point.stats) high = std::max(high, chart.value(point));
  }
  if (!(high > 0)) return DrawEmpty(canvas, plot, "No value is legal.");
  high *= 1.08;
  const auto y_of = [&](double value) {
    return plot.y1 - static_cast<float>(value / high) * plot.Height();
  };
  const std::size_t last = std::max<std::size_t>(1, sweep.points.size() - 1);
  const auto x_of = [&](std::size_t i) {
    return plot.x0 + plot.Width() * static_cast<float>(i) / static_cast<float>(last);
  };
  for (const double share : {0.0, 0.5, 1.0}) {
    const float y = std::round(y_of(share * high));
    canvas.Fill({plot.x0, y, plot.x1, y + 1.0F}, theme.grid);
    canvas.TextIn(canvas.fonts.mono_small,
                  {box.x0, y - canvas.Px(8), plot.x0 - canvas.Px(6), y + canvas.Px(8)},
                  Align::kRight, theme.muted, chart.text(share * high));
  }
  if (chart.limit > 0) {
    const float y = y_of(chart.limit);
    canvas.DashedLine({plot.x0, y}, {plot.x1, y}, theme.amber, canvas.Px(4));
  }
  std::vector<Point> line;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    if (!point.stats) {
      canvas.Lines(line, theme.predicted, 1.5F * canvas.scale);
      line.clear();
      continue;
    }
    line.push_back({x_of(i), y_of(chart.value(point))});
  }
  canvas.Lines(line, theme.predicted, 1.5F * canvas.scale);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    if (!point.stats) continue;
    const Point at{x_of(i), y_of(chart.value(point))};
    // A plan that does not fit is a ring.
    canvas.Dot(at, canvas.Px(point.own ? 5 : 3), point.own ? theme.accent : theme.predicted);
    if (!point.stats->Fits()) canvas.Dot(at, canvas.Px(point.own ? 3 : 2), theme.ground);
  }
  // Values at the lower edge, as many as fit.
  float free = box.x0;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const std::string text = CountText(sweep.points[i].value);
    const float width = canvas.WidthOf(canvas.fonts.mono_small, text);
    const float x = std::clamp(x_of(i) - width / 2, box.x0, box.x1 - width);
    if (x < free) continue;
    canvas.Text(canvas.fonts.mono_small, {x, plot.y1 + canvas.Px(5)},
                sweep.points[i].own ? theme.text : theme.muted, text);
    free = x + width + canvas.Px(6);
  }
}

}  // namespace

void DrawDifference(const ScreenFrame& frame, const Box& box,
                    const ExplainedDifference& explained) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const std::vector<Fall> falls = FallsOf(explained);
  double low = explained.before.step_s, high = low;
  for (const Fall& fall : falls) {
    if (!fall.total) low = std::min({low, fall.from, fall.to});
    high = std::max({high, fall.from, fall.to});
  }
  low = std::min(low, explained.after.step_s);
  // The scale begins a little below the shortest, so that small changes can be seen.
  const double start = std::max(0.0, low - std::max(0.25 * (high - low), 0.02 * high));
  const float names = std::floor(0.42F * box.Width());
  const float x0 = box.x0 + names, x1 = box.x1 - canvas.Px(kMemory + 100);
  const auto x_of = [&](double value) {
    const double share = std::clamp((value - start) / std::max(1e-12, high - start), 0.0, 1.0);
    return x0 + static_cast<float>(share) * (x1 - x0);
  };
  float y = box.y0 + canvas.Px(8);
  canvas.Text(canvas.fonts.small, {box.x0 + canvas.Px(14), y}, theme.muted,
              Shortened(canvas, canvas.fonts.small,
                        "changes one after another, by passes; each effect depends on those above",
                        x1 - box.x0 - canvas.Px(20)));
  canvas.TextIn(canvas.fonts.small,
                {box.x1 - canvas.Px(kMemory), y, box.x1 - canvas.Px(14), y + canvas.Px(16)},
                Align::kRight, theme.muted, "memory");
  y += canvas.Px(24);
  for (const Fall& fall : falls) {
    if (y + canvas.Px(kRow) > box.y1) break;
    const Box row{box.x0 + canvas.Px(14), y, box.x1 - canvas.Px(14), y + canvas.Px(kRow)};
    canvas.TextIn(canvas.fonts.text, {row.x0, row.y0, x0 - canvas.Px(10), row.y1}, Align::kLeft,
                  fall.total ? theme.text : theme.muted,
                  Shortened(canvas, canvas.fonts.text, fall.name, x0 - canvas.Px(10) - row.x0));
    const float a = fall.total ? x0 : x_of(fall.from), b = x_of(fall.to);
    const Colour colour =
        fall.total ? theme.predicted : ToneColour(theme, ToneOf(fall.to - fall.from));
    canvas.Fill({std::min(a, b), row.y0 + canvas.Px(6), std::max({a, b, std::min(a, b) + 1.0F}),
                 row.y1 - canvas.Px(6)},
                fall.total ? Mixed(theme.ground, theme.predicted, 0.45F) : colour);
    canvas.Text(canvas.fonts.mono_small, {std::max(a, b) + canvas.Px(8), row.y0 + canvas.Px(6)},
                colour, fall.value);
    const std::string memory =
        fall.total ? FormatBytes(fall.memory_bytes) : SignedBytes(fall.memory_bytes);
    canvas.TextIn(canvas.fonts.mono_small, {row.x1 - canvas.Px(kMemory), row.y0, row.x1, row.y1},
                  Align::kRight, fall.fits ? theme.muted : theme.amber,
                  fall.fits ? memory : memory + " does not fit");
    y = row.y1;
  }
  if (explained.effects.empty()) {
    canvas.Text(canvas.fonts.small, {box.x0 + canvas.Px(14), y + canvas.Px(8)}, theme.muted,
                "The plan is the pinned one: change it and its difference is explained here.");
  }
}

void DrawSweep(Canvas& canvas, const Box& box, const PlanSweep& sweep) {
  std::int64_t device_bytes = 0;
  for (const SweepPoint& point : sweep.points) {
    if (point.stats) device_bytes = point.stats->device_bytes;
  }
  const auto si = [](double value) { return FormatSi(value, ""); };
  const auto bytes = [](double value) { return FormatBytes(std::llround(value)); };
  const std::vector<Chart> charts{
      {"tokens/s of a device", [](const SweepPoint& p) { return p.TokensPerDevice(); }, si},
      {"device-hours for 10^9 tokens",
       [](const SweepPoint& p) { return p.DeviceHoursPerBillion(); }, si},
      {"memory of the fullest device",
       [](const SweepPoint& p) { return static_cast<double>(p.stats->device.Total()); }, bytes,
       static_cast<double>(device_bytes)}};
  const float gap = canvas.Px(18);
  const float width = std::floor((box.Width() - 2 * gap) / static_cast<float>(charts.size()));
  const float note = canvas.Px(22);
  float x = box.x0;
  for (const Chart& chart : charts) {
    DrawChart(canvas, {x, box.y0, x + width, box.y1 - note}, sweep, chart);
    x += width + gap;
  }
  const auto refused = std::find_if(sweep.points.begin(), sweep.points.end(),
                                    [](const SweepPoint& point) { return !point.stats; });
  std::string text =
      fmt::format("by {}; the large mark is this plan, a ring does not fit", Name(sweep.field));
  if (refused != sweep.points.end()) {
    text += fmt::format("; {} is not legal: {}", CountText(refused->value), refused->problem);
  }
  canvas.Text(canvas.fonts.small, {box.x0, box.y1 - note + canvas.Px(6)}, canvas.theme.muted,
              Shortened(canvas, canvas.fonts.small, text, box.Width()));
}

std::optional<std::size_t> DrawHistory(const ScreenFrame& frame, const Box& box,
                                       const ScenarioHistory& history) {
  std::optional<std::size_t> clicked;
  BeginPanel(frame, box, "##what-if.history");
  if (BeginTable(frame, "history", {"#", "change", "plan"})) {
    for (std::size_t i = history.entries().size(); i-- > 0;) {
      const ScenarioHistory::Entry& entry = history.entries()[i];
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      if (SelectableRow(frame, std::to_string(i + 1), i == history.at(),
                        fmt::format("change {}", i + 1))) {
        clicked = i;
      }
      Cell(frame,
           Shortened(frame.canvas, frame.canvas.fonts.text, entry.text, 0.45F * box.Width()));
      Cell(frame, Shortened(frame.canvas, frame.canvas.fonts.text, Describe(entry.scenario.plan),
                            0.4F * box.Width()));
    }
    EndTable();
  }
  EndPanel();
  return clicked;
}

}  // namespace foretrain::ui

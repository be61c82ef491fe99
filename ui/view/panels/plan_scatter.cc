// Draws the plans found as marks of throughput against peak memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/units.h"
#include "ui/view/screens/plan_parts.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kMark = 5.0F;
constexpr double kReach = 0.03;  // of the plot's width: maximum distance of the mouse

// Draws the scatter of one frame. The mouse is evaluated after the marks, so rings and tooltip lie
// on top.
class Scatter {
 public:
  Scatter(const ScreenFrame& frame, const Box& box, const FoundPlans& found, PlanView& view)
      : frame_(frame), canvas_(frame.canvas), found_(found), view_(view), plot_(box) {
    plot_.x0 += canvas_.Px(66);
    plot_.x1 -= canvas_.Px(18);
    plot_.y0 += canvas_.Px(14);
    plot_.y1 -= canvas_.Px(44);
  }

  // From the bottom: axes, capacity, front, plans, measured runs. Rings and tooltip come after the
  // mouse is evaluated.
  void Draw() {
    if (plot_.Width() < canvas_.Px(80) || plot_.Height() < canvas_.Px(60)) return;
    DrawAxes();
    canvas_.PushClip(plot_);
    DrawCapacity();
    DrawOtherFronts();
    DrawFront();
    for (std::size_t i = 0; i < view_.scatter.points.size(); ++i) DrawMark(i);
    DrawMeasured();
    canvas_.PopClip();
    FollowMouse();
    if (view_.selected) Ring(*view_.selected, canvas_.theme.accent, 2.0F);
    if (view_.hovered) Ring(*view_.hovered, canvas_.theme.accent, 1.0F);
    DrawLegend();
    if (view_.hovered && plot_.Contains(frame_.input.x, frame_.input.y)) DrawHover();
  }

 private:
  // Values outside the axes are clamped, so that far outliers do not overflow pixel coordinates.
  Point At(double memory, double rate) const {
    const double x = std::clamp(view_.scatter.X(memory), -1.0, 2.0);
    const double y = std::clamp(view_.scatter.Y(rate), -1.0, 2.0);
    return {plot_.x0 + static_cast<float>(x) * plot_.Width(),
            plot_.y1 - static_cast<float>(y) * plot_.Height()};
  }
  Point At(std::size_t plan) const {
    const PlanPoint& point = view_.scatter.points[plan];
    return At(point.memory_bytes, point.tokens_per_s);
  }

  // Ticks at round numbers of GiB and tokens/s, as many as the size allows.
  void DrawAxes() {
    const PlanScatter& scatter = view_.scatter;
    canvas_.Fill(plot_, canvas_.theme.lane);
    // About 90 pixels per label across and 42 up.
    const int across = std::max(1, static_cast<int>(plot_.Width() / canvas_.Px(90)));
    const double gib = static_cast<double>(kGiB);
    const double step = NiceStep((scatter.high_memory - scatter.low_memory) / gib / across) * gib;
    for (double at = std::ceil(scatter.low_memory / step) * step; at < scatter.high_memory;
         at += step) {
      const float x = std::round(At(at, scatter.low_rate).x);
      canvas_.Fill({x, plot_.y0, x + 1.0F, plot_.y1}, canvas_.theme.grid);
      const std::string text = fmt::format("{:.6g}", at / gib);
      canvas_.TextIn(canvas_.fonts.mono_small,
                     {x - canvas_.Px(40), plot_.y1 + canvas_.Px(3), x + canvas_.Px(40),
                      plot_.y1 + canvas_.Px(19)},
                     Align::kCentre, canvas_.theme.faint, text);
    }
    const int up = std::max(1, static_cast<int>(plot_.Height() / canvas_.Px(42)));
    const double rate = NiceStep((scatter.high_rate - scatter.low_rate) / up);
    for (double at = std::ceil(scatter.low_rate / rate) * rate; at < scatter.high_rate;
         at += rate) {
      const float y = std::round(At(scatter.low_memory, at).y);
      canvas_.Fill({plot_.x0, y, plot_.x1, y + 1.0F}, canvas_.theme.grid);
      canvas_.TextIn(canvas_.fonts.mono_small,
                     {plot_.x0 - canvas_.Px(62), y - canvas_.Px(8), plot_.x0 - canvas_.Px(6),
                      y + canvas_.Px(8)},
                     Align::kRight, canvas_.theme.faint, FormatSi(at, ""));
    }
    canvas_.TextIn(canvas_.fonts.small,
                   {plot_.x0, plot_.y1 + canvas_.Px(21), plot_.x1, plot_.y1 + canvas_.Px(39)},
                   Align::kRight, canvas_.theme.muted, "peak memory of a device, GiB");
    canvas_.TextIn(
        canvas_.fonts.small,
        {plot_.x0 + canvas_.Px(8), plot_.y0 + canvas_.Px(4), plot_.x1, plot_.y0 + canvas_.Px(20)},
        Align::kLeft, canvas_.theme.muted, "tokens/s");
  }

  // Left out if no plan comes near the capacity.
  void DrawCapacity() {
    const PlanScatter& scatter = view_.scatter;
    if (scatter.device_bytes > scatter.high_memory) return;
    const float x = std::round(At(scatter.device_bytes, 0).x);
    canvas_.DashedLine({x, plot_.y0}, {x, plot_.y1}, canvas_.theme.amber, canvas_.Px(5));
    // At the bottom: plans close to the limit are fast and so lie at the top.
    canvas_.TextIn(canvas_.fonts.small,
                   {x - canvas_.Px(120), plot_.y1 - canvas_.Px(20), x - canvas_.Px(6),
                    plot_.y1 - canvas_.Px(4)},
                   Align::kRight, canvas_.theme.amber,
                   FormatBytes(static_cast<std::int64_t>(scatter.device_bytes)));
  }

  // A step line from each plan of the front to the next: the throughput that less memory costs.
  void DrawFront() {
    std::vector<Point> points;
    for (const std::size_t plan : view_.scatter.front) {
      const Point at = At(plan);
      if (!points.empty()) points.push_back({at.x, points.back().y});
      points.push_back(at);
    }
    if (points.empty()) return;
    points.push_back({plot_.x1, points.back().y});
    canvas_.Lines(points, Faded(canvas_.theme.predicted, 0.45F), 1.5F * canvas_.scale);
  }

  // Fronts of other trainers, each with its name at its fastest plan.
  void DrawOtherFronts() {
    const auto& ranks = canvas_.theme.ranks;
    for (std::size_t i = 0; i < view_.scatter.others.size(); ++i) {
      const TrainerFront& front = view_.scatter.others[i];
      const Colour colour = ranks[i % ranks.size()];
      std::vector<Point> points;
      for (const auto& [memory, rate] : front.points) {
        const Point at = At(memory, rate);
        if (!points.empty()) points.push_back({at.x, points.back().y});
        points.push_back(at);
        canvas_.Dot(at, canvas_.Px(3), colour);
      }
      if (points.empty()) continue;
      canvas_.Lines(points, colour, 1.5F * canvas_.scale);
    }
  }

  // Plans of the front are filled, others are rings; pinned plans carry a label.
  void DrawMark(std::size_t plan) {
    const Point at = At(plan);
    const PlanPoint& point = view_.scatter.points[plan];
    canvas_.Dot(at, canvas_.Px(kMark + 1), canvas_.theme.lane);
    canvas_.Dot(at, canvas_.Px(kMark), canvas_.theme.predicted);
    if (!point.pareto) canvas_.Dot(at, canvas_.Px(kMark - 1.5F), canvas_.theme.lane);
    if (IsKept(found_, plan, view_)) {
      canvas_.Text(canvas_.fonts.small, {at.x + canvas_.Px(8), at.y - canvas_.Px(16)},
                   canvas_.theme.text, "pinned");
    }
  }

  void Ring(std::size_t plan, Colour colour, float thickness) {
    if (plan >= view_.scatter.points.size()) return;
    RingAt(At(plan), colour, canvas_.Px(kMark + 4), thickness * canvas_.scale);
  }

  // A polygon of kSides sides, which at this size looks round.
  void RingAt(Point at, Colour colour, float radius, float thickness) {
    constexpr int kSides = 24;
    std::vector<Point> points;
    for (int i = 0; i <= kSides; ++i) {
      const float angle = 6.2831853F * static_cast<float>(i) / kSides;
      points.push_back({at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)});
    }
    canvas_.Lines(points, colour, thickness);
  }

  // A measured run is a ring, connected with the forecast of the same run.
  void DrawMeasured() {
    for (const MeasuredPlan& run : view_.scatter.measured) {
      const Point at = At(static_cast<double>(run.memory_bytes), run.tokens_per_s);
      if (run.forecast_tokens_per_s > 0) {
        const Point forecast =
            At(static_cast<double>(run.forecast_memory_bytes), run.forecast_tokens_per_s);
        canvas_.Line(forecast, at, canvas_.theme.text, canvas_.scale);
        canvas_.Dot(forecast, canvas_.Px(3), canvas_.theme.predicted);
      }
      RingAt(at, canvas_.theme.text, canvas_.Px(kMark + 2), 2.5F * canvas_.scale);
      canvas_.Text(canvas_.fonts.small, {at.x + canvas_.Px(11), at.y - canvas_.Px(7)},
                   canvas_.theme.text, run.label.substr(0, run.label.find(':')));
    }
  }

  // Hovering highlights the nearest plan within reach, and a press selects it in the table too.
  void FollowMouse() {
    const InputFrame& input = frame_.input;
    if (!plot_.Contains(input.x, input.y)) return;
    const double x = (input.x - plot_.x0) / plot_.Width();
    const double y = (plot_.y1 - input.y) / plot_.Height();
    view_.hovered = NearestPlan(view_.scatter, x, y, plot_.Width() / plot_.Height(), kReach);
    if (input.pressed && view_.hovered) {
      view_.selected = view_.hovered;
      view_.scroll_to_selected = true;
      view_.tab = PlanTab::kSelected;
    }
  }

  // Left out in narrow plots, where it would overlap the axis title.
  void DrawLegend() {
    const float y = plot_.y1 + canvas_.Px(23);
    float x = plot_.x0;
    const auto entry = [&](bool filled, std::string_view text) {
      const Point at{x + canvas_.Px(6), y + canvas_.Px(7)};
      canvas_.Dot(at, canvas_.Px(4), canvas_.theme.predicted);
      if (!filled) canvas_.Dot(at, canvas_.Px(2.5F), canvas_.theme.ground);
      x += canvas_.Px(16);
      x += canvas_.Text(canvas_.fonts.small, {x, y}, canvas_.theme.muted, text) + canvas_.Px(16);
    };
    DrawTrainers();
    if (plot_.Width() < canvas_.Px(430)) return;
    entry(true, "on the front");
    entry(false, "others");
    if (view_.scatter.measured.empty()) return;
    RingAt({x + canvas_.Px(6), y + canvas_.Px(7)}, canvas_.theme.text, canvas_.Px(5), 2.0F);
    canvas_.Text(canvas_.fonts.small, {x + canvas_.Px(16), y}, canvas_.theme.muted, "measured");
  }

  // The names of the trainers whose fronts are drawn, in a column below the axis title.
  void DrawTrainers() {
    if (view_.scatter.others.empty()) return;
    const auto& ranks = canvas_.theme.ranks;
    float y = plot_.y0 + canvas_.Px(22);
    const auto line = [&](const std::string& name, Colour colour) {
      if (y + canvas_.Px(16) > plot_.y1) return;
      canvas_.Fill({plot_.x0 + canvas_.Px(8), y + canvas_.Px(7), plot_.x0 + canvas_.Px(22),
                    y + canvas_.Px(9)},
                   colour);
      canvas_.Text(canvas_.fonts.small, {plot_.x0 + canvas_.Px(28), y}, canvas_.theme.text, name);
      y += canvas_.Px(16);
    };
    line(found_.request->setup.trainer, canvas_.theme.predicted);
    for (std::size_t i = 0; i < view_.scatter.others.size(); ++i) {
      line(view_.scatter.others[i].setup.trainer, ranks[i % ranks.size()]);
    }
  }

  // The tooltip moves left or up if it would leave the plot.
  void DrawHover() {
    const std::size_t plan = *view_.hovered;
    const std::vector<std::string> lines = {
        Cell(found_, plan, PlanColumn::kPlan),
        Cell(found_, plan, PlanColumn::kThroughput) + " tokens/s, MFU " +
            Cell(found_, plan, PlanColumn::kMfu),
        Cell(found_, plan, PlanColumn::kMemory) + ", " + Cell(found_, plan, PlanColumn::kHeadroom) +
            " left"};
    float width = 0;
    for (const std::string& line : lines) {
      width = std::max(width, canvas_.WidthOf(canvas_.fonts.small, line));
    }
    Box card{frame_.input.x + canvas_.Px(14), frame_.input.y + canvas_.Px(14), 0, 0};
    card.x1 = card.x0 + width + canvas_.Px(20);
    card.y1 = card.y0 + canvas_.Px(12.0F + 17.0F * static_cast<float>(lines.size()));
    // Negative or 0: the shift back into the plot.
    const float left = std::min(0.0F, plot_.x1 - card.x1);
    const float up = std::min(0.0F, plot_.y1 - card.y1);
    card = {card.x0 + left, card.y0 + up, card.x1 + left, card.y1 + up};
    canvas_.Card(card);
    float y = card.y0 + canvas_.Px(6);
    for (const std::string& line : lines) {
      canvas_.Text(canvas_.fonts.small, {card.x0 + canvas_.Px(10), y}, canvas_.theme.text, line);
      canvas_.record.tooltip.push_back(line);
      y += canvas_.Px(17);
    }
  }

  const ScreenFrame& frame_;
  Canvas& canvas_;
  const FoundPlans& found_;
  PlanView& view_;
  Box plot_;
};

}  // namespace

void DrawScatter(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                 PlanView& view) {
  Scatter(frame, box, found, view).Draw();
}

}  // namespace foretrain::ui

#include "ui/view/lanes/lane_controls.h"

#include <fmt/format.h>
#include <imgui.h>

#include <charconv>
#include <optional>

#include "ui/view/widgets/widgets.h"
#include "ui/view_model/ranks/lane_keys.h"

namespace foretrain::ui {
namespace {

constexpr float kPad = 6.0F;

// A small choice that is on or off. Returns whether it was pressed.
bool Choice(const ScreenFrame& frame, const Box& box, std::string_view name, bool on) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const bool over = box.Contains(frame.input.x, frame.input.y);
  canvas.Fill(box, Mixed(theme.panel, theme.text, on ? 0.24F : 0.07F), canvas.Px(4));
  canvas.TextIn(canvas.fonts.small, box, Align::kCentre, on || over ? theme.text : theme.muted,
                name);
  canvas.record.widgets.push_back({std::string(name), box});
  return over && frame.input.pressed;
}

// The rank that is typed; `nullopt` if the text is none.
std::optional<int> RankIn(const std::string& text) {
  int rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank < 0) return std::nullopt;
  return rank;
}

// The lane that shows `rank`: its own, or that of the simulated rank that stands for it.
std::optional<std::size_t> LaneShowing(const CompareModel& model, int rank) {
  if (const auto lane = LaneOfRank(model, rank); lane.has_value()) return lane;
  return LaneOfRank(model, model.RankOn(model.Shown(), rank));
}

}  // namespace

void DrawLaneControls(const ScreenFrame& frame, const CompareModel& model, const Layout& layout,
                      RankField& field, ViewState& state) {
  if (layout.overview.IsEmpty() || model.lanes.size() < 2) return;
  Canvas& canvas = frame.canvas;
  const float x0 = layout.window.x0 + canvas.Px(kPad), x1 = layout.plot_x0 - canvas.Px(kPad);
  const Box box{x0, layout.overview.y0 + 1.0F, x1, layout.overview.y1};
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0.0F, 0.0F));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowMinSize, ImVec2(1.0F, 1.0F));
  BeginPanel(frame, box, "##compare.rank");
  ImGui::PushFont(canvas.fonts.small);
  if (std::exchange(field.wanted, false)) ImGui::SetKeyboardFocusHere();
  if (TextField(frame, "##rank", &field.text, "go to rank")) {
    const std::optional<int> rank = RankIn(field.text);
    const auto lane = rank.has_value() ? LaneShowing(model, *rank) : std::nullopt;
    if (lane.has_value()) {
      state.memory_lane = *lane;
      ScrollToLane(layout, *lane, state);
    }
  }
  ImGui::PopFont();
  EndPanel();
  ImGui::PopStyleVar(2);
  const float middle = canvas.WidthOf(canvas.fonts.small, "groups") + canvas.Px(12);
  const float y0 = layout.axis.y0 + canvas.Px(3), y1 = layout.axis.y1 - canvas.Px(3);
  if (Choice(frame, {x0, y0, x0 + middle, y1}, "groups", state.order.grouped)) {
    OnLaneKey(model, U'r', state);
  }
  if (Choice(frame, {x0 + middle + canvas.Px(4), y0, x1, y1}, "slowest",
             state.order.sort == LaneSort::kSlowestFirst)) {
    OnLaneKey(model, U'l', state);
  }
}

}  // namespace foretrain::ui

#include "ui/view_model/ranks/lane_keys.h"

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

// Moves the visible part of the time to `x` of the overview, which shows model.extent.
void GoInOverview(const CompareModel& model, const Layout& layout, float x, ViewState& state) {
  const double width = std::max(1, layout.Columns());
  const double share = std::clamp((x - layout.plot_x0) / width, 0.0, 1.0);
  const Extent& whole = model.extent;
  const double middle = whole.start_ns + share * (whole.end_ns - whole.start_ns);
  const double length = state.viewport.LengthNs();
  state.viewport = {middle - length / 2, middle + length / 2};
}

}  // namespace

bool OnLaneKey(const CompareModel& model, char32_t key, ViewState& state) {
  LaneOrder& order = state.order;
  if (key == U'r') {
    order.grouped = !order.grouped;
  } else if (key == U'l') {
    const bool slowest = order.sort == LaneSort::kSlowestFirst;
    order.sort = slowest ? LaneSort::kByRank : LaneSort::kSlowestFirst;
    if (!slowest) state.scroll = 0.0F;
  } else if (key == U'v') {
    const std::size_t lane = state.hovered.has_value() ? state.hovered->lane : state.selected_lane;
    const bool known = state.hovered.has_value() || state.selected.has_value();
    if (known && lane < model.lanes.size()) TogglePin(model.lanes[lane].rank, order);
  } else {
    return false;
  }
  return true;
}

bool OnLanePress(const CompareModel& model, const Layout& layout, const InputFrame& input,
                 ViewState& state) {
  if (layout.list == nullptr) return false;
  state.moved = 0.0F;
  if (layout.overview.Contains(input.x, input.y)) {
    state.drag = Drag::kOverview;
    GoInOverview(model, layout, input.x, state);
    return true;
  }
  if (input.x >= layout.plot_x0) return false;
  if (input.y < layout.lanes.y0) return true;  // controls of the view
  if (!layout.lanes.Contains(input.x, input.y)) return false;
  for (const LaneBox& lane : layout.lane_boxes) {
    if (!lane.box.Contains(input.x, input.y)) continue;
    if (lane.pin.Contains(input.x, input.y)) {
      TogglePin(model.lanes[lane.lane].rank, state.order);
    } else if (lane.group.Contains(input.x, input.y)) {
      ToggleGroup(lane.row.group, state.order);
    } else {
      state.drag = Drag::kLane;
      state.dragged_lane = lane.lane;
    }
    return true;
  }
  return false;
}

bool OnLaneMove(const CompareModel& model, const Layout& layout, const InputFrame& input,
                ViewState& state) {
  if (state.drag == Drag::kOverview) GoInOverview(model, layout, input.x, state);
  return state.drag == Drag::kOverview || state.drag == Drag::kLane;
}

// The nearest edge between two lanes is the new place.
void OnLaneDrop(const CompareModel& model, const Layout& layout, const InputFrame& input,
                ViewState& state) {
  if (state.drag != Drag::kLane || layout.list == nullptr) return;
  if (state.dragged_lane >= model.lanes.size()) return;
  const float at = input.y - layout.lanes.y0 + layout.scroll;
  const float place = std::round(at / std::max(1.0F, layout.lane_height));
  MoveRank(model, *layout.list, model.lanes[state.dragged_lane].rank,
           static_cast<std::size_t>(std::max(0.0F, place)), state.order);
}

void ScrollToLane(const Layout& layout, std::size_t lane, ViewState& state) {
  const std::optional<std::size_t> place = layout.PlaceOf(lane);
  if (!place.has_value()) {
    state.reveal = lane;
    return;
  }
  const float top = static_cast<float>(*place) * layout.lane_height;
  const float visible = layout.lanes.Height();
  if (top < state.scroll || top + layout.lane_height > state.scroll + visible) {
    state.scroll = std::clamp(top - (visible - layout.lane_height) / 2, 0.0F, layout.max_scroll);
  }
}

bool RevealLane(const LaneList& list, ViewState& state) {
  if (!state.reveal.has_value() || *state.reveal >= list.groups.size()) return false;
  const int group = list.groups[*state.reveal];
  const std::vector<int>& open = state.order.open;
  if (std::binary_search(open.begin(), open.end(), group)) return false;
  ToggleGroup(group, state.order);
  return true;
}

}  // namespace foretrain::ui

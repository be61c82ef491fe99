#include "ui/view_model/planning/stage_layout.h"

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kGutter = 104.0F;
constexpr float kRight = 16.0F;
constexpr float kAxis = 26.0F;
constexpr float kLegend = 30.0F;
constexpr float kMemory = 150.0F;
constexpr float kMaxMemory = 340.0F;
constexpr float kMinLanes = 90.0F;
constexpr float kMinLane = 9.0F;
constexpr float kMaxLane = 150.0F;
constexpr float kComputeShare = 0.72F;
constexpr float kMinMoves = 12.0F;  // lanes at least this high have a second row for non-compute

bool HasMoves(const Lane& lane) {
  const std::vector<Row>& rows = lane.rows[Index(Side::kPredicted)];
  return rows.size() > 1 && !rows[1].tracks.empty();
}

// Low lanes show compute alone; higher ones have a second strip for communication and copies.
void AddStrips(const CompareModel& model, const Box& inner, float scale, LaneBox& lane) {
  const Lane& of = model.lanes[lane.lane];
  if (of.rows[Index(Side::kPredicted)].empty()) return;
  Box compute = inner, moves = inner;
  if (HasMoves(of) && inner.Height() >= kMinMoves * scale) {
    compute.y1 = inner.y0 + std::round(inner.Height() * kComputeShare);
    moves.y0 = compute.y1 + std::max(1.0F, std::floor(scale));
    lane.strips.push_back({Side::kPredicted, 0, compute});
    lane.strips.push_back({Side::kPredicted, 1, moves});
    return;
  }
  lane.strips.push_back({Side::kPredicted, 0, compute});
}

}  // namespace

// Axis and legend are fixed, memory takes its share of the rest, and lanes fill what remains. Lanes
// that do not fit scroll.
Layout MakeStageLayout(const CompareModel& model, const Box& window, float scale, float scroll,
                       bool memory) {
  const auto px = [scale](float units) { return std::round(units * scale); };
  Layout layout;
  layout.scale = scale;
  layout.window = window;
  layout.plot_x0 = std::min(window.x1, window.x0 + px(kGutter));
  layout.plot_x1 = std::max(layout.plot_x0, window.x1 - px(kRight));
  layout.axis = {window.x0, window.y0, window.x1, std::min(window.y1, window.y0 + px(kAxis))};
  float bottom = window.y1;
  const auto cut = [&](float height) {
    const float top = std::max(layout.axis.y1, bottom - height);
    const Box box{window.x0, top, window.x1, bottom};
    bottom = top;
    return box;
  };
  layout.legend = cut(px(kLegend));
  const auto lanes = static_cast<float>(std::max<std::size_t>(1, model.lanes.size()));
  const float room = bottom - layout.axis.y1;
  if (memory && room >= px(kMemory + kMinLanes)) {
    // Height that the lanes cannot use goes to the memory panel.
    const float spare = std::max(0.0F, room - px(kMemory) - lanes * px(kMaxLane));
    layout.memory = cut(std::min(px(kMemory) + spare, px(kMaxMemory)));
  }
  layout.lanes = {window.x0, layout.axis.y1, window.x1, bottom};
  layout.lane_height =
      std::floor(std::clamp(layout.lanes.Height() / lanes, px(kMinLane), 2 * px(kMaxLane)));
  layout.max_scroll = std::max(
      0.0F, static_cast<float>(model.lanes.size()) * layout.lane_height - layout.lanes.Height());
  layout.scroll = std::clamp(scroll, 0.0F, layout.max_scroll);
  const float pad = layout.lane_height >= px(34) ? px(5) : std::max(0.0F, std::floor(scale));
  for (std::size_t i = 0; i < model.lanes.size(); ++i) {
    const float y0 =
        layout.lanes.y0 - std::round(layout.scroll) + static_cast<float>(i) * layout.lane_height;
    LaneBox lane{.lane = i, .box = {window.x0, y0, window.x1, y0 + layout.lane_height}};
    if (lane.box.y1 <= layout.lanes.y0 || lane.box.y0 >= layout.lanes.y1) continue;
    AddStrips(model, {layout.plot_x0, y0 + pad, layout.plot_x1, y0 + layout.lane_height - pad},
              scale, lane);
    layout.lane_boxes.push_back(std::move(lane));
  }
  return layout;
}

}  // namespace foretrain::ui

// The timelines of the what-if view, and the panels that lie under one.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/playback/playhead.h"
#include "ui/view/screens/what_if_screen.h"
#include "ui/view_model/planning/stage_layout.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kLegend = 30.0F;  // height of a timeline's legend
constexpr float kMinForMemory = 350.0F;

}  // namespace

// Empty if the lane is not in this picture, which may have fewer stages.
MemoryPanel WhatIfScreen::PanelOfLane() const {
  const std::vector<Lane>& lanes = picture_->model.lanes;
  const bool known = state_.memory_lane < lanes.size();
  return known ? MakeMemoryPanel(picture_->model, lanes[state_.memory_lane].rank) : MemoryPanel{};
}

// Pictures are drawn again only if picture, viewport or layout changed; the memory panel only for
// another picture or lane.
void WhatIfScreen::RefreshPictures(const ScreenFrame& frame) {
  const Theme& theme = frame.canvas.theme;
  const PictureKey key{state_.viewport,    layout_.window, layout_.scale, layout_.scroll,
                       state_.memory_lane, theme.ground,   picture_.get()};
  if (key_ == key) return;
  const bool other = !key_ || key_->picture != key.picture || key_->memory_lane != key.memory_lane;
  if (other) memory_ = PanelOfLane();
  key_ = key;
  lanes_ = MakeLanePictures(picture_->model, layout_, state_.viewport, theme);
  memory_picture_ = MakeMemoryPicture(picture_->model, layout_, state_.viewport, memory_, theme);
  lanes_shown_ = frame.images.Keep("what-if.lanes", lanes_.image);
  memory_shown_ = frame.images.Keep("what-if.memory", memory_picture_.image);
}

// The timeline of stages. A click on another lane asks for its memory, unless all lanes have theirs
// from the simulation.
void WhatIfScreen::DrawTimeline(const ScreenFrame& screen, const Box& box) {
  const CompareModel& model = picture_->model;
  const auto place = [&] {
    // A low timeline above another panel keeps its room for the lanes.
    const bool memory =
        workbench_.panel() < WhatIfPanel::kPlay || box.Height() > screen.canvas.Px(kMinForMemory);
    layout_ = MakeStageLayout(model, box, screen.canvas.scale, state_.scroll, memory);
    state_.scroll = layout_.scroll;
  };
  place();
  const std::size_t lane = state_.memory_lane;
  const Playback played = state_.play;
  InputFrame left = screen.input;
  HandlePlayKeys(model, left, state_.play);
  Advance(model, left.elapsed_s, state_.play);
  if (state_.play.on && !played.on) workbench_.Show(WhatIfPanel::kPlay);
  Update(model, layout_, left, state_);
  if (state_.play != played) FollowMoment(state_.play, state_.viewport);
  state_.wanted = model.options;  // rows and alignment are one way here
  if (state_.memory_lane != lane && state_.memory_lane < picture_->stages.size()) {
    memory_pp_ = picture_->stages[state_.memory_lane];
    if (!by_ops_) Ask();
  }
  place();
  const InputFrame& input = screen.input;
  moving_ = input.left || input.right || input.nearer || input.farther || input.down;
  RefreshPictures(screen);
  const Frame frame{model, layout_, state_, screen.canvas};
  screen.canvas.PushClip(layout_.window);
  DrawGrid(frame);
  DrawLanes(frame, lanes_, lanes_shown_);
  if (!by_ops_ && what_if_.shown()->passes->HasPasses()) {
    DrawPassOps(frame, *what_if_.shown()->passes);
  }
  DrawPlayhead(frame, state_.play);
  DrawMemory(frame, memory_, memory_picture_, memory_shown_);
  DrawAxis(frame);
  DrawStepEnds(frame);
  if (pinned_step_ != nullptr) DrawPinnedEnd(frame, pinned_step_->stats.step_s);
  DrawLegend(frame);
  DrawCursor(frame, input.x, input.y);
  if (state_.hovered && state_.hovered->span) {
    const int rank = model.lanes[state_.hovered->lane].rank;
    DrawTooltip(screen.canvas, layout_.window, HoverOfSpan(model, rank, *state_.hovered->span),
                {input.x, input.y});
  }
  screen.canvas.PopClip();
}

// The pinned plan's lanes at the same zoom. Its legend is the other timeline's, so it is cut off.
void WhatIfScreen::DrawPinnedTimeline(const ScreenFrame& screen, const Box& box) {
  if (pinned_step_ == nullptr || pinned_step_->picture == nullptr) {
    return DrawEmpty(screen.canvas, box, "The pinned plan has no timeline by passes.");
  }
  const CompareModel& model = pinned_step_->picture->model;
  const Theme& theme = screen.canvas.theme;
  Box whole = box;
  whole.y1 += screen.canvas.Px(kLegend);
  const Layout layout = MakeStageLayout(model, whole, screen.canvas.scale, 0.0F, false);
  ViewState state{.viewport = state_.viewport};
  state.memory_lane = model.lanes.size();
  const PictureKey key{state.viewport,
                       layout.window,
                       layout.scale,
                       0.0F,
                       0,
                       theme.ground,
                       pinned_step_->picture.get()};
  if (pinned_key_ != key) {
    pinned_key_ = key;
    pinned_lanes_ = MakeLanePictures(model, layout, state.viewport, theme);
    pinned_shown_ = screen.images.Keep("what-if.pinned", pinned_lanes_.image);
  }
  const Frame frame{model, layout, state, screen.canvas};
  screen.canvas.PushClip(box);
  DrawGrid(frame);
  DrawLanes(frame, pinned_lanes_, pinned_shown_);
  DrawAxis(frame);
  screen.canvas.Fill({box.x0, box.y1 - 1.0F, box.x1, box.y1}, theme.line);
  screen.canvas.PopClip();
}

// The step that is stepped through, or the schedule that is edited. Returns where the panel begins.
float WhatIfScreen::DrawPanelBelow(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const bool plays = workbench_.panel() == WhatIfPanel::kPlay;
  const float height = canvas.Px(plays ? PlayPanel::kHeight : SchedulePanel::kHeight);
  const Box below{box.x0, std::round(std::max(box.y0 + 0.36F * box.Height(), box.y1 - height)),
                  box.x1, box.y1};
  canvas.Fill(below, canvas.theme.panel);
  canvas.Fill({below.x0, below.y0, below.x1, below.y0 + 1.0F}, canvas.theme.line);
  if (plays) {
    play_.Draw(frame, below, picture_->model, picture_number_, state_.memory_lane, state_.play);
  } else if (auto edited = schedule_.Draw(frame, below, scenario_->plan); edited.has_value()) {
    scenario_->plan = *std::move(edited);
    Ask();
  }
  return below.y0;
}

}  // namespace foretrain::ui

#include "ui/view/compare_screen.h"

#include <imgui.h>

#include <utility>

namespace foretrain::ui {
namespace {

bool SameOptions(const CompareOptions& a, const CompareOptions& b) {
  return a.predicted_step == b.predicted_step && a.measured_step == b.measured_step &&
         a.alignment == b.alignment && a.rows == b.rows && a.notices == b.notices;
}

void DrawMouse(const Frame& frame, const InputFrame& input) {
  DrawCursor(frame, input.x, input.y);
  const ViewState& state = frame.state;
  if (!state.hovered.has_value() || state.help) return;
  const Hit& hit = *state.hovered;
  if (hit.span.has_value()) {
    const int rank = frame.model.lanes[hit.lane].rank;
    DrawTooltip(frame, HoverOfSpan(frame.model, rank, *hit.span), input.x, input.y);
    return;
  }
  const auto gap = HoverOfGap(frame.model, hit.lane, hit.side, hit.time_ns);
  if (gap.has_value()) DrawTooltip(frame, *gap, input.x, input.y);
}

}  // namespace

bool CompareScreen::PictureKey::operator==(const PictureKey& other) const {
  return viewport == other.viewport && size.width == other.size.width &&
         size.height == other.size.height && size.scale == other.size.scale &&
         scroll == other.scroll && memory_lane == other.memory_lane && light == other.light &&
         model == other.model;
}

CompareScreen::CompareScreen(const CompareInput& input, const CompareOptions& options)
    : input_(&input),
      facts_(FactsOf(input)),
      model_(std::make_unique<CompareModel>(BuildCompareModel(input, facts_, options))),
      state_(StartOf(*model_)) {}

void CompareScreen::SetInput(const CompareInput& input, CompareFacts facts) {
  facts_ = std::move(facts);
  auto model = std::make_unique<CompareModel>(BuildCompareModel(input, facts_, state_.wanted));
  state_ = CarryOver(*model_, *model, std::move(state_));
  input_ = &input;
  model_ = std::move(model);
  ++model_number_;
}

void CompareScreen::Rebuild() {
  if (SameOptions(state_.wanted, model_->options)) return;
  auto model = std::make_unique<CompareModel>(BuildCompareModel(*input_, facts_, state_.wanted));
  state_ = CarryOver(*model_, *model, std::move(state_));
  model_ = std::move(model);
  ++model_number_;
}

Colour CompareScreen::ground() const { return (state_.light ? LightTheme() : DarkTheme()).ground; }

void CompareScreen::RefreshPictures(const ViewSize& size, const Theme& theme, ImageSink& images) {
  const std::pair memory_of(model_number_, state_.memory_lane);
  if (memory_of_ != memory_of) {
    memory_ = MakeMemoryPanel(*model_, state_.memory_lane);
    memory_of_ = memory_of;
  }
  const PictureKey key{state_.viewport,    size,         layout_.scroll,
                       state_.memory_lane, state_.light, model_number_};
  if (key_ == key) return;
  key_ = key;
  lanes_ = MakeLanePictures(*model_, layout_, state_.viewport, theme);
  memory_picture_ = MakeMemoryPicture(*model_, layout_, state_.viewport, memory_, theme);
  lanes_texture_ = images.Keep(Picture::kLanes, lanes_.image);
  memory_texture_ = images.Keep(Picture::kMemory, memory_picture_.image);
}

const FrameRecord& CompareScreen::Draw(const ViewSize& size, const Fonts& fonts,
                                       const InputFrame& input, ImageSink& images) {
  layout_ = MakeLayout(*model_, size, state_.scroll, state_.memory_lane);
  state_.scroll = layout_.scroll;
  Update(*model_, layout_, input, state_);
  Rebuild();
  layout_ = MakeLayout(*model_, size, state_.scroll, state_.memory_lane);
  moving_ = input.left || input.right || input.nearer || input.farther || input.down;

  const Theme theme = state_.light ? LightTheme() : DarkTheme();
  RefreshPictures(size, theme, images);
  record_ = {};
  Canvas canvas{*ImGui::GetBackgroundDrawList(), theme, fonts, size.scale, record_};
  const Frame frame{*model_, layout_, state_, canvas};
  canvas.Fill(layout_.window, theme.ground);
  DrawGrid(frame);
  DrawLanes(frame, lanes_, lanes_texture_);
  DrawDrift(frame);
  DrawMemory(frame, memory_, memory_picture_, memory_texture_);
  DrawAxis(frame);
  DrawStepEnds(frame);
  DrawLegend(frame);
  DrawHeader(frame);
  DrawNumbers(frame);
  DrawNotices(frame);
  DrawMouse(frame, input);
  if (state_.help) DrawHelp(frame);
  return record_;
}

}  // namespace foretrain::ui

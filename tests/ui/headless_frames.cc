#include "tests/ui/headless_frames.h"

#include <imgui.h>

#include <algorithm>
#include <cctype>

namespace foretrain {

void HeadlessFrames::SetUp() {
  auto view = ui::HeadlessView::Create(kSize, {});
  if (!view.has_value()) GTEST_SKIP() << view.error().message;
  view_ = *std::move(view);
}

void HeadlessFrames::Open(const CompareInput& input, const ui::CompareOptions& options) {
  content_.reset();
  whole_ = nullptr;
  screen_.reset();
  desktop_ =
      std::make_unique<ui::DesktopState>(std::make_unique<const CompareInput>(input), options);
  screen_ = std::make_unique<ui::CompareScreen>(*desktop_);
  content_ = std::make_unique<ui::LoneScreen>(*screen_);
  Frame();
}

void HeadlessFrames::OpenDesktop(const CompareInput& input) {
  auto whole = std::make_unique<ui::Desktop>(std::make_unique<const CompareInput>(input));
  whole_ = whole.get();
  content_ = std::move(whole);
  Frame();
}

const ui::FrameRecord& HeadlessFrames::Frame() {
  last_ = view_->Advance(*content_);
  return last_;
}

ui::Point HeadlessFrames::MiddleOf(std::string_view label) {
  for (const ui::WidgetRecord& widget : last_.widgets) {
    if (widget.label != label) continue;
    return {(widget.box.x0 + widget.box.x1) / 2, (widget.box.y0 + widget.box.y1) / 2};
  }
  ADD_FAILURE() << "there is no control called " << label;
  return {};
}

const ui::FrameRecord& HeadlessFrames::ClickOn(std::string_view label) {
  const ui::Point at = MiddleOf(label);
  return Click(at.x, at.y);
}

ui::Image HeadlessFrames::Pixels() {
  view_->Frame(*content_);
  return view_->Read();
}

const ui::FrameRecord& HeadlessFrames::Type(char key) {
  ImGui::GetIO().AddInputCharacter(static_cast<unsigned char>(key));
  return Frame();
}

const ui::FrameRecord& HeadlessFrames::MoveTo(float x, float y) {
  ImGui::GetIO().MousePos = {x, y};
  return Frame();
}

const ui::FrameRecord& HeadlessFrames::Wheel(float notches) {
  ImGui::GetIO().MouseWheel = notches;
  return Frame();
}

const ui::FrameRecord& HeadlessFrames::Click(float x, float y) {
  MoveTo(x, y);
  ImGui::GetIO().MouseDown[0] = true;
  Frame();
  ImGui::GetIO().MouseDown[0] = false;
  return Frame();
}

void HeadlessFrames::DragTo(float x, float y, bool shift) {
  ImGuiIO& io = ImGui::GetIO();
  io.KeyShift = shift;
  io.KeyMods = shift ? ImGuiKeyModFlags_Shift : ImGuiKeyModFlags_None;
  io.MouseDown[0] = true;
  Frame();
  MoveTo(x, y);
  io.MouseDown[0] = false;
  Frame();
  io.KeyShift = false;
  io.KeyMods = ImGuiKeyModFlags_None;
}

float HeadlessFrames::XOf(double time_ns) {
  const ui::Layout& layout = Compare().layout();
  return layout.plot_x0 +
         static_cast<float>(state().viewport.ToX(time_ns, layout.plot_x1 - layout.plot_x0));
}

float HeadlessFrames::YOf(std::size_t lane, std::size_t strip) {
  const ui::Box& box = Compare().layout().lane_boxes.at(lane).strips.at(strip).box;
  return (box.y0 + box.y1) / 2;
}

bool Shows(const ui::FrameRecord& record, std::string_view text) {
  return std::any_of(record.labels.begin(), record.labels.end(), [text](const std::string& label) {
    return label.find(text) != std::string::npos;
  });
}

bool HoldsNoNumber(std::string_view label) {
  const auto letter = [&label](std::size_t at) {
    return at < label.size() && std::isalpha(static_cast<unsigned char>(label[at])) != 0;
  };
  for (const std::string_view word : {"nan", "inf"}) {
    for (std::size_t at = label.find(word); at != std::string_view::npos;
         at = label.find(word, at + 1)) {
      if (!letter(at + 3) && (at == 0 || !letter(at - 1))) return true;
    }
  }
  return false;
}

}  // namespace foretrain

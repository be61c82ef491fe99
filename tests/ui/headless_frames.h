// Draws frames of one screen or of the desktop without a display, with mouse and keys written into
// Dear ImGui's io.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "ui/render/headless.h"
#include "ui/view/desktop/desktop.h"
#include "ui/view/desktop/window_content.h"
#include "ui/view/screens/compare_screen.h"

namespace foretrain {

// Uses the built-in font, which is the same everywhere.
class HeadlessFrames : public testing::Test {
 protected:
  void SetUp() override;

  // Creates the compare screen for a copy of `input` and draws one frame.
  void Open(const CompareInput& input, const ui::CompareOptions& options = {});

  // Creates the whole desktop with a copy of `input` and draws one frame.
  void OpenDesktop(const CompareInput& input);

  const ui::FrameRecord& Frame();
  // The pixels of one more frame.
  ui::Image Pixels();
  const ui::FrameRecord& Type(char key);
  const ui::FrameRecord& MoveTo(float x, float y);
  const ui::FrameRecord& Wheel(float notches);
  // Moves in one frame and presses in the next, as a user does.
  const ui::FrameRecord& Click(float x, float y);
  void DragTo(float x, float y, bool shift = false);

  // The middle of the control or rail item labelled `label` in the last frame; fails the test if
  // there is none.
  ui::Point MiddleOf(std::string_view label);
  const ui::FrameRecord& ClickOn(std::string_view label);

  const ui::ViewState& state() { return Compare().state(); }
  ui::CompareScreen& Compare() { return whole_ != nullptr ? whole_->compare() : *screen_; }
  // x of a displayed time.
  float XOf(double time_ns);
  // y of the middle of strip `strip` of lane `lane`.
  float YOf(std::size_t lane, std::size_t strip);

  static constexpr ui::ViewSize kSize{1000, 700, 1};
  std::unique_ptr<ui::HeadlessView> view_;
  std::unique_ptr<ui::DesktopState> desktop_;
  std::unique_ptr<ui::CompareScreen> screen_;
  std::unique_ptr<ui::WindowContent> content_;  // the content of the frames
  ui::Desktop* whole_ = nullptr;  // the same if it is the whole desktop; null otherwise
  ui::FrameRecord last_;
};

// Whether any label contains `text`.
bool Shows(const ui::FrameRecord& record, std::string_view text);

// Whether "nan" or "inf" appears in a label as a word: names of models and presets contain these
// letters.
bool HoldsNoNumber(std::string_view label);

}  // namespace foretrain

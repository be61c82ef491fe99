// Frames of the compare view without a display, with mouse and keys written into Dear ImGui's io.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "ui/render/headless.h"
#include "ui/view/compare_screen.h"

namespace foretrain {

// Drawn with the built-in font, which is the same everywhere.
class HeadlessFrames : public testing::Test {
 protected:
  void SetUp() override;

  // Makes the screen of `input`, which must outlive the test's frames, and draws one frame.
  void Open(const CompareInput& input, const ui::CompareOptions& options = {});

  const ui::FrameRecord& Frame() { return view_->Advance(*screen_); }
  // The pixels of one more frame.
  ui::Image Pixels();
  const ui::FrameRecord& Type(char key);
  const ui::FrameRecord& MoveTo(float x, float y);
  const ui::FrameRecord& Wheel(float notches);
  // Moves in one frame and presses in the next, as a hand does.
  const ui::FrameRecord& Click(float x, float y);
  void DragTo(float x, float y, bool shift = false);

  const ui::ViewState& state() { return screen_->state(); }
  // Where a displayed time lies.
  float XOf(double time_ns);
  // The middle of strip `strip` of lane `lane`.
  float YOf(std::size_t lane, std::size_t strip);

  static constexpr ui::ViewSize kSize{1000, 700, 1};
  std::unique_ptr<ui::HeadlessView> view_;
  std::unique_ptr<ui::CompareScreen> screen_;
};

// Whether any label contains `text`.
bool Shows(const ui::FrameRecord& record, std::string_view text);

}  // namespace foretrain

// The content of a window or a picture: the desktop, or in tests a single screen.
#pragma once

#include "ui/view/screens/screen.h"

namespace foretrain::ui {

class WindowContent {
 public:
  virtual ~WindowContent() = default;

  // One frame on the current Dear ImGui context, between NewFrame and Render. The record is that of
  // this frame and lives until the next.
  virtual const FrameRecord& Draw(const ViewSize& size, const Fonts& fonts, const InputFrame& input,
                                  ImageSink& images) = 0;
  virtual bool IsMoving() const = 0;
  virtual Colour ground() const = 0;
};

// One screen in the whole window, without rail, strip and status line.
class LoneScreen final : public WindowContent {
 public:
  // `screen` must outlive this.
  explicit LoneScreen(Screen& screen, bool light = false) : screen_(screen), light_(light) {}

  const FrameRecord& Draw(const ViewSize& size, const Fonts& fonts, const InputFrame& input,
                          ImageSink& images) override;
  bool IsMoving() const override { return screen_.IsMoving(); }
  Colour ground() const override;

 private:
  Screen& screen_;
  bool light_;
  FrameRecord record_;
};

}  // namespace foretrain::ui

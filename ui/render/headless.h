// Drawing without a display: an OpenGL context on no surface, a framebuffer, a PNG.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/render/gl_images.h"
#include "ui/render/ui_context.h"
#include "ui/view/window_content.h"

namespace foretrain::ui {

// An OpenGL 3.3 context of its own with a framebuffer of `size`; current on the thread that made
// it. The EGL display is never terminated: drivers do not survive that within one process.
class HeadlessTarget {
 public:
  // Errors: kUnsupported, no driver can draw without a display; kInvalidArgument, `size` is not 1
  // to 16384 pixels each way.
  static Result<std::unique_ptr<HeadlessTarget>> Create(const ViewSize& size);
  ~HeadlessTarget();
  HeadlessTarget(const HeadlessTarget&) = delete;
  HeadlessTarget& operator=(const HeadlessTarget&) = delete;

  const ViewSize& size() const { return size_; }

  // What was drawn.
  Image Read() const;

 private:
  explicit HeadlessTarget(const ViewSize& size) : size_(size) {}
  Result<void> Open();
  Result<void> MakeFramebuffer();

  ViewSize size_;
  void* display_ = nullptr;
  void* context_ = nullptr;
  unsigned framebuffer_ = 0;
  unsigned colour_ = 0;
};

// Draws frames without a display. Input is the caller's.
class HeadlessView {
 public:
  // `font_folders` empty: the built-in font. Errors: as HeadlessTarget::Create.
  static Result<std::unique_ptr<HeadlessView>> Create(const ViewSize& size,
                                                      const std::vector<std::string>& font_folders);

  const Fonts& fonts() const { return ui_.fonts(); }

  // One frame of 1/60 s from what stands in ImGui's io (mouse, keys, characters).
  const FrameRecord& Frame(WindowContent& content);

  // The same without drawing pixels: for input whose picture nobody looks at.
  const FrameRecord& Advance(WindowContent& content);

  Image Read() const { return target_->Read(); }

  // Returns when what was asked of the driver is drawn.
  void Wait() const;

 private:
  const FrameRecord& Record(WindowContent& content);
  HeadlessView(std::unique_ptr<HeadlessTarget> target,
               const std::vector<std::string>& font_folders);

  std::unique_ptr<HeadlessTarget> target_;
  UiContext ui_;
  GlImages images_;
};

}  // namespace foretrain::ui

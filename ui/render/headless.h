// Draws without a display: an OpenGL context without a surface, and a framebuffer that can be read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/render/gl_images.h"
#include "ui/render/ui_context.h"
#include "ui/view/desktop/window_content.h"

namespace foretrain::ui {

// An OpenGL 3.3 context with a framebuffer of `size`, current on the thread that created it. The
// EGL display is never terminated, because drivers do not survive that within one process.
class HeadlessTarget {
 public:
  // Errors: kUnsupported if no driver can draw without a display; kInvalidArgument if `size` is not
  // 1 to 16384 pixels each way.
  static Result<std::unique_ptr<HeadlessTarget>> Create(const ViewSize& size);
  ~HeadlessTarget();
  HeadlessTarget(const HeadlessTarget&) = delete;
  HeadlessTarget& operator=(const HeadlessTarget&) = delete;

  const ViewSize& size() const { return size_; }

  // The framebuffer's pixels.
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

// Draws frames without a display. The caller fills in the input.
class HeadlessView {
 public:
  // Empty `font_folders` select the built-in font. Errors: as HeadlessTarget::Create.
  static Result<std::unique_ptr<HeadlessView>> Create(const ViewSize& size,
                                                      const std::vector<std::string>& font_folders);

  const Fonts& fonts() const { return ui_.fonts(); }

  // Draws one frame of 1/60 s from the input in ImGui's io (mouse, keys, characters).
  const FrameRecord& Frame(WindowContent& content);

  // The same without drawing pixels, for input whose picture nobody reads.
  const FrameRecord& Advance(WindowContent& content);

  Image Read() const { return target_->Read(); }
  // The last frame, whose record is `record`, as SVG.
  std::string Svg(const FrameRecord& record, Colour ground) const;

  // Returns once the driver has drawn everything.
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

#include "ui/render/headless.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <backends/imgui_impl_opengl3.h>
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ui/render/gl.h"
#include "ui/render/svg.h"
#include "ui/view/desktop/input.h"

namespace foretrain::ui {
namespace {

constexpr float kMaxPixels = 16384.0F;

tl::unexpected<Error> NoDriver(std::string_view what) {
  return Fail(ErrorCode::kUnsupported,
              fmt::format("cannot draw without a display: {} (EGL error 0x{:x}). Install Mesa's "
                          "software driver (libegl-mesa0, libgl1-mesa-dri)",
                          what, eglGetError()));
}

// The platform is an extension, so its function has to be looked up; EGL_NO_DISPLAY if the driver
// does not have it.
EGLDisplay SurfacelessDisplay() {
  const auto get = reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(
      eglGetProcAddress("eglGetPlatformDisplayEXT"));
  if (get == nullptr) return EGL_NO_DISPLAY;
  return get(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
}

}  // namespace

// The size is checked before EGL starts, so that a bad argument is not reported as a missing
// driver.
Result<std::unique_ptr<HeadlessTarget>> HeadlessTarget::Create(const ViewSize& size) {
  const auto fits = [](float pixels) { return pixels >= 1.0F && pixels <= kMaxPixels; };
  if (!fits(size.width) || !fits(size.height)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("size {:.0f}x{:.0f}: each way takes 1 to {:.0f} pixels", size.width,
                            size.height, kMaxPixels));
  }
  std::unique_ptr<HeadlessTarget> target(new HeadlessTarget(size));
  FT_TRY(target->Open());
  FT_TRY(target->MakeFramebuffer());
  return target;
}

// A context without a surface: the framebuffer below takes its place.
Result<void> HeadlessTarget::Open() {
  display_ = SurfacelessDisplay();
  if (display_ == EGL_NO_DISPLAY) return NoDriver("no surfaceless EGL platform");
  EGLint major = 0, minor = 0;
  if (eglInitialize(display_, &major, &minor) == EGL_FALSE) return NoDriver("eglInitialize failed");
  if (eglBindAPI(EGL_OPENGL_API) == EGL_FALSE) return NoDriver("EGL has no OpenGL");
  constexpr std::array<EGLint, 5> kConfig{EGL_SURFACE_TYPE, 0, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT,
                                          EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (eglChooseConfig(display_, kConfig.data(), &config, 1, &count) == EGL_FALSE || count == 0) {
    return NoDriver("no OpenGL configuration");
  }
  constexpr std::array<EGLint, 7> kContext{EGL_CONTEXT_MAJOR_VERSION,
                                           3,
                                           EGL_CONTEXT_MINOR_VERSION,
                                           3,
                                           EGL_CONTEXT_OPENGL_PROFILE_MASK,
                                           EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
                                           EGL_NONE};
  context_ = eglCreateContext(display_, config, EGL_NO_CONTEXT, kContext.data());
  if (context_ == EGL_NO_CONTEXT) return NoDriver("no OpenGL 3.3 context");
  if (eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, context_) == EGL_FALSE) {
    return NoDriver("eglMakeCurrent failed");
  }
  return {};
}

// The colour texture has the fast channel order; see gl.h.
Result<void> HeadlessTarget::MakeFramebuffer() {
  glGenFramebuffers(1, &framebuffer_);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
  glGenTextures(1, &colour_);
  glBindTexture(GL_TEXTURE_2D, colour_);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, static_cast<int>(size_.width),
               static_cast<int>(size_.height), 0, kFastOrder, kFastType, nullptr);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, colour_, 0);
  if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
    return NoDriver(fmt::format("no framebuffer of {:.0f}x{:.0f}", size_.width, size_.height));
  }
  return {};
}

// Objects are deleted while their context is still current. The display stays open; see the header.
HeadlessTarget::~HeadlessTarget() {
  if (context_ == EGL_NO_CONTEXT) return;
  if (framebuffer_ != 0) glDeleteFramebuffers(1, &framebuffer_);
  if (colour_ != 0) glDeleteTextures(1, &colour_);
  eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
  eglDestroyContext(display_, context_);
}

Image HeadlessTarget::Read() const {
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
  return ReadFrame(size_);
}

HeadlessView::HeadlessView(std::unique_ptr<HeadlessTarget> target,
                           const std::vector<std::string>& font_folders)
    : target_(std::move(target)), ui_(font_folders, target_->size().scale) {}

Result<std::unique_ptr<HeadlessView>> HeadlessView::Create(
    const ViewSize& size, const std::vector<std::string>& font_folders) {
  FT_ASSIGN(std::unique_ptr<HeadlessTarget> target, HeadlessTarget::Create(size));
  return std::unique_ptr<HeadlessView>(new HeadlessView(std::move(target), font_folders));
}

// Time advances by a fixed 1/60 s per frame, so that frames do not depend on the machine's speed.
const FrameRecord& HeadlessView::Record(WindowContent& content) {
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {target_->size().width, target_->size().height};
  io.DeltaTime = 1.0F / 60.0F;
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  return content.Draw(target_->size(), ui_.fonts(), ReadInput(), images_);
}

const FrameRecord& HeadlessView::Frame(WindowContent& content) {
  const FrameRecord& record = Record(content);
  ui_.Render(target_->size(), content.ground());
  return record;
}

std::string HeadlessView::Svg(const FrameRecord& record, Colour ground) const {
  return SvgOf(*ImGui::GetDrawData(), record, ground,
               [this](void* texture) { return images_.Read(texture); });
}

void HeadlessView::Wait() const { glFinish(); }

const FrameRecord& HeadlessView::Advance(WindowContent& content) {
  const FrameRecord& record = Record(content);
  ImGui::EndFrame();
  return record;
}

}  // namespace foretrain::ui

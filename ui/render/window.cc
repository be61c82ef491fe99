// The desktop in a window of its own.
#include "ui/open_desktop.h"

#include <backends/imgui_impl_opengl3.h>
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/stop_point.h"
#include "ui/render/gl.h"
#include "ui/render/gl_images.h"
#include "ui/render/glfw_input.h"
#include "ui/render/saved_picture.h"
#include "ui/render/shown_frame.h"
#include "ui/render/ui_context.h"
#include "ui/store_loader.h"
#include "ui/view/desktop/input.h"

namespace foretrain::ui {
namespace {

// Maximum sleep of an idle window, the same while a thread loads data, and minimum time per frame
// while something moves. Without the last, a display that does not wait for its refresh would be
// redrawn continuously.
constexpr double kIdleSeconds = 1.0;
constexpr double kReadingSeconds = 0.05;
constexpr double kFrameSeconds = 1.0 / 60.0;

std::string GlfwText() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text != nullptr ? text : "no reason given";
}

// GLFW and one window with a current OpenGL context.
class Window {
 public:
  // Distinguishes a missing display from a missing OpenGL 3.3, because the remedies differ.
  static Result<std::unique_ptr<Window>> Create(const ViewOptions& options) {
    if (glfwInit() == GLFW_FALSE) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("cannot open a window: {}. Use --screenshot FILE to draw without a "
                              "display",
                              GlfwText()));
    }
    std::unique_ptr<Window> window(new Window);
    FT_TRY(window->Open(options));
    return window;
  }
  ~Window() {
    if (window_ != nullptr) glfwDestroyWindow(window_);
    glfwTerminate();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  GLFWwindow* get() const { return window_; }

  ViewSize SizeAt(float scale) const {
    int width = 0, height = 0;
    glfwGetFramebufferSize(window_, &width, &height);
    return {static_cast<float>(std::max(1, width)), static_cast<float>(std::max(1, height)), scale};
  }

  // Scale of the monitor, limited to a sensible range.
  float Density() const {
    float x = 1.0F, y = 1.0F;
    glfwGetWindowContentScale(window_, &x, &y);
    return std::clamp(x, 1.0F, 4.0F);
  }

 private:
  Window() = default;

  Result<void> Open(const ViewOptions& options) {
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    // Depth and stencil buffers are not needed, and without them Mesa's software driver takes its
    // fast paths.
    glfwWindowHint(GLFW_DEPTH_BITS, 0);
    glfwWindowHint(GLFW_STENCIL_BITS, 0);
    window_ = glfwCreateWindow(std::max(1, options.width), std::max(1, options.height), "foretrain",
                               nullptr, nullptr);
    if (window_ == nullptr) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("cannot open a window with OpenGL 3.3: {}. Use --screenshot FILE to "
                              "draw without one",
                              GlfwText()));
    }
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
    return {};
  }

  GLFWwindow* window_ = nullptr;
};

// Reports settings whenever they have changed.
class Keeper {
 public:
  Keeper(const DesktopHooks& hooks, const ViewOptions& options) : keep_(hooks.keep) {
    kept_ = hooks.settings;
    scale_ = options.scale;
  }

  // Fields that the window does not own are taken over from the settings kept last.
  void Keep(const Desktop& desktop, const ViewSize& size) {
    if (!keep_) return;
    Settings now = kept_;
    now.light = desktop.state().light;
    now.view = desktop.view();
    now.scale = scale_;
    now.width = static_cast<int>(size.width);
    now.height = static_cast<int>(size.height);
    now.recent = desktop.state().stores.recent;
    if (now.recent.size() > kMaxRecent) now.recent.resize(kMaxRecent);
    if (now == kept_) return;
    kept_ = now;
    keep_(now);
  }

 private:
  const std::function<void(const Settings&)>& keep_;
  Settings kept_;
  double scale_ = 0.0;
};

// Saves pictures that a key has asked for, of the frame after it, which has no notice of the last
// one.
class Pictures {
 public:
  // Whether another frame is to be drawn: for the picture, or to show its notice.
  bool NeedsFrame() const { return form_.has_value() || is_news_; }

  // Called after each frame, before it is shown.
  void Keep(Desktop& desktop, const ViewSize& size, const FrameRecord& record,
            const GlImages& images) {
    DesktopState& state = desktop.state();
    is_news_ = form_.has_value();
    if (is_news_) {
      const auto saved =
          SavePicture(*form_, desktop.view(), size, record, desktop.ground(), images);
      notice_ = saved.has_value() ? "Saved the picture " + *saved
                                  : "The picture was not saved: " + saved.error().message;
      state.notices.push_back(notice_);
    }
    form_ = std::exchange(state.wanted_picture, std::nullopt);
    if (form_.has_value()) std::erase(state.notices, notice_);
  }

 private:
  std::optional<PictureForm> form_;
  bool is_news_ = false;  // the last frame did not show the notice yet
  std::string notice_;
};

// Decides when to draw a frame. Each event or change causes two frames, since the first may change
// the content of the second. None are drawn while nothing happens.
class Pace {
 public:
  // Sleeps until there may be something to draw. Returns whether an event came.
  bool Wait(bool moving, bool reading) {
    moving_ = moving;
    const double now = glfwGetTime();
    if (frames_ > 0 || moving) {
      const double left = drawn_s_ + kFrameSeconds - now;
      moving&& left > 0.0 ? glfwWaitEventsTimeout(left) : glfwPollEvents();
      return false;
    }
    // GLFW does not say whether an event ended the wait, so a wait that ended early counts as one.
    const double max = reading ? kReadingSeconds : kIdleSeconds;
    glfwWaitEventsTimeout(max);
    return glfwGetTime() - now < 0.98 * max;
  }

  // Whether to draw a frame now. `watching`: draw at least one per second.
  bool IsDue(bool news, bool watching) {
    if (news) frames_ = 2;
    const double now = glfwGetTime();
    const bool due = frames_ > 0 || moving_ || (watching && now - drawn_s_ >= 0.98 * kIdleSeconds);
    if (!due) return false;
    frames_ = std::max(0, frames_ - 1);
    drawn_s_ = now;
    return true;
  }

 private:
  int frames_ = 2;
  bool moving_ = false;
  double drawn_s_ = 0.0;
};

}  // namespace

// The event loop. Objects are declared so that they are destroyed in the reverse order of their
// dependence: the window last.
Result<void> RunWindow(OpenedStore opened, const ViewOptions& options, const DesktopHooks& hooks) {
  FT_ASSIGN(const std::unique_ptr<Window> window, Window::Create(options));
  const float scale = options.scale > 0.0 ? static_cast<float>(options.scale) : window->Density();
  UiContext ui(options.font_folders.value_or(FontFolders()), scale);
  GlfwInput input(window->get());
  GlImages images;
  Settings recent = hooks.settings;
  if (!opened.path.empty()) recent.Remember(opened.path);
  FT_ASSIGN(const std::unique_ptr<Desktop> desktop, OpenDesktop(std::move(opened), options));
  DesktopState& state = desktop->state();
  state.stores.recent = recent.recent;
  state.services.explain = hooks.explain;
  state.services.find_live = hooks.find_live;
  state.services.read_progress = hooks.read_progress;
  state.services.start_training = hooks.start_training;
  if (!hooks.notice.empty()) state.notices.push_back(hooks.notice);
  StoreLoader loader(hooks.stores, hooks.doing);
  Keeper keeper(hooks, options);
  Pictures pictures;
  const auto closes = [&] {
    return glfwWindowShouldClose(window->get()) == GLFW_TRUE || (hooks.stop && hooks.stop());
  };
  for (Pace pace; !closes();) {
    // Input and finished loads decide whether this round draws a frame.
    const bool event = pace.Wait(desktop->IsMoving() || pictures.NeedsFrame(), loader.IsBusy()) ||
                       input.IsWaiting();
    for (std::string& path : input.TakeDropped()) state.stores.dropped.push_back(std::move(path));
    const bool changed = loader.Refresh(glfwGetTime(), state);
    if (!pace.IsDue(event || changed, desktop->IsWatching())) continue;
    ImGui_ImplOpenGL3_NewFrame();
    input.NewFrame();
    ImGui::NewFrame();
    const ViewSize size = window->SizeAt(scale);
    const FrameRecord& record = desktop->Draw(size, ui.fonts(), ReadInput(), images);
    ui.Render(size, desktop->ground());
    pictures.Keep(*desktop, size, record, images);
    glfwSwapBuffers(window->get());
    keeper.Keep(*desktop, size);
    ShownFrame(desktop->view(), record);
    StopPoint("view.frame");
  }
  if (hooks.close) hooks.close();
  return {};
}

}  // namespace foretrain::ui

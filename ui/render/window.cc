#include "ui/render/window.h"

#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "base/stop_point.h"
#include "ui/open_screen.h"
#include "ui/render/gl.h"
#include "ui/render/gl_images.h"
#include "ui/render/ui_context.h"
#include "ui/view/input.h"

namespace foretrain::ui {
namespace {

constexpr double kReloadSeconds = 1.0;

std::string GlfwText() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text != nullptr ? text : "no reason given";
}

// GLFW's library and one window with a current OpenGL context.
class Window {
 public:
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
    window_ = glfwCreateWindow(std::max(1, options.width), std::max(1, options.height),
                               "foretrain: compare", nullptr, nullptr);
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

// Installs and removes the callbacks that fill Dear ImGui's input.
class GlfwInput {
 public:
  explicit GlfwInput(GLFWwindow* window) { ImGui_ImplGlfw_InitForOpenGL(window, true); }
  ~GlfwInput() { ImGui_ImplGlfw_Shutdown(); }
  GlfwInput(const GlfwInput&) = delete;
  GlfwInput& operator=(const GlfwInput&) = delete;
};

// Newer runs and what takes long to compute of them.
struct NewerRuns {
  std::unique_ptr<CompareInput> input;  // null: nothing has changed
  CompareFacts facts;
};

Result<NewerRuns> Reload(const ReloadRuns& reload) {
  try {
    FT_ASSIGN(std::unique_ptr<CompareInput> input, reload());
    CompareFacts facts = input != nullptr ? FactsOf(*input) : CompareFacts{};
    return NewerRuns{std::move(input), std::move(facts)};
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kIo, error.what());
  }
}

// The runs that are shown, and the ones that replace them, loaded on another thread.
class Runs {
 public:
  Runs(std::unique_ptr<CompareInput> input, const ReloadRuns& reload)
      : input_(std::move(input)), reload_(reload) {}

  const CompareInput& input() const { return *input_; }

  // Asks for newer runs when it is time, and shows those that have come.
  void Refresh(double now_s, CompareScreen& screen) {
    if (!reload_) return;
    if (!coming_.valid() && now_s >= next_s_) {
      coming_ = std::async(std::launch::async, [this] { return Reload(reload_); });
    }
    const bool there =
        coming_.valid() && coming_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!there) return;
    next_s_ = now_s + kReloadSeconds;
    Take(coming_.get(), screen);
  }

 private:
  void Take(Result<NewerRuns> newer, CompareScreen& screen) {
    std::vector<std::string>& notices = screen.state().wanted.notices;
    std::erase(notices, error_);
    error_.clear();
    if (!newer.has_value()) {
      error_ = "The runs cannot be read again: " + newer.error().message;
      notices.push_back(error_);
      return;
    }
    if (newer->input == nullptr) return;
    screen.SetInput(*newer->input, std::move(newer->facts));
    input_ = std::move(newer->input);
  }

  std::unique_ptr<CompareInput> input_;
  const ReloadRuns& reload_;
  double next_s_ = kReloadSeconds;
  std::string error_;
  std::future<Result<NewerRuns>> coming_;  // last: it ends before what it uses
};

}  // namespace

Result<void> RunWindow(std::unique_ptr<CompareInput> input, const ViewOptions& options,
                       const ReloadRuns& reload, const std::function<bool()>& stop) {
  FT_ASSIGN(const std::unique_ptr<Window> window, Window::Create(options));
  const float scale = options.scale > 0.0 ? static_cast<float>(options.scale) : window->Density();
  UiContext ui(options.font_folders.value_or(FontFolders()), scale);
  GlfwInput glfw_input(window->get());
  GlImages images;
  Runs runs(std::move(input), reload);
  FT_ASSIGN(const std::unique_ptr<CompareScreen> screen,
            OpenScreen(runs.input(), options, ui.fonts()));
  // Two frames follow each event: the first may change what the second shows.
  const auto closes = [&] {
    return glfwWindowShouldClose(window->get()) == GLFW_TRUE || (stop && stop());
  };
  for (int frames = 2; !closes();) {
    if (screen->IsMoving() || frames > 0) {
      glfwPollEvents();
      --frames;
    } else {
      glfwWaitEventsTimeout(kReloadSeconds);
      frames = 2;
    }
    runs.Refresh(glfwGetTime(), *screen);
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    ImGui::NewFrame();
    const ViewSize size = window->SizeAt(scale);
    screen->Draw(size, ui.fonts(), ReadInput(), images);
    ui.Render(size, screen->ground());
    glfwSwapBuffers(window->get());
    StopPoint("view.frame");
  }
  return {};
}

}  // namespace foretrain::ui

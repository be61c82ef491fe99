#include "ui/render/glfw_input.h"

#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <imgui.h>

#include <algorithm>
#include <cfloat>
#include <utility>

namespace foretrain::ui {

using Kind = InputEvent::Kind;

GlfwInput::GlfwInput(GLFWwindow* window) : window_(window) {
  ImGui_ImplGlfw_InitForOpenGL(window, /*install_callbacks=*/false);
  is_inside_ = glfwGetWindowAttrib(window, GLFW_HOVERED) == GLFW_TRUE;
  glfwGetCursorPos(window, &x_, &y_);
  glfwSetWindowUserPointer(window, this);
  static constexpr auto self = [](GLFWwindow* w) {
    return static_cast<GlfwInput*>(glfwGetWindowUserPointer(w));
  };
  glfwSetCursorPosCallback(window, [](GLFWwindow* w, double x, double y) {
    self(w)->queue_.Push({Kind::kMove, x, y});
  });
  glfwSetCursorEnterCallback(window, [](GLFWwindow* w, int entered) {
    if (entered == GLFW_FALSE) self(w)->queue_.Push({Kind::kLeave});
  });
  glfwSetMouseButtonCallback(window, [](GLFWwindow* w, int button, int action, int /*modifiers*/) {
    self(w)->queue_.Push({Kind::kButton, 0.0, 0.0, button, 0, action == GLFW_PRESS});
  });
  glfwSetScrollCallback(window, [](GLFWwindow* w, double x, double y) {
    self(w)->queue_.Push({Kind::kWheel, x, y});
  });
  glfwSetKeyCallback(window, [](GLFWwindow* w, int key, int scancode, int action, int /*mods*/) {
    if (action == GLFW_REPEAT) return;  // Dear ImGui repeats keys itself
    self(w)->queue_.Push({Kind::kKey, 0.0, 0.0, key, scancode, action == GLFW_PRESS});
  });
  glfwSetCharCallback(window, [](GLFWwindow* w, unsigned character) {
    self(w)->queue_.Push({Kind::kCharacter, 0.0, 0.0, static_cast<int>(character)});
  });
  glfwSetDropCallback(window, [](GLFWwindow* w, int count, const char** paths) {
    self(w)->dropped_.insert(self(w)->dropped_.end(), paths, paths + count);
  });
}

GlfwInput::~GlfwInput() { ImGui_ImplGlfw_Shutdown(); }

void GlfwInput::Pass(const InputEvent& event) {
  switch (event.kind) {
    case Kind::kMove:
      x_ = event.x;
      y_ = event.y;
      is_inside_ = true;
      break;
    case Kind::kLeave:
      is_inside_ = false;
      break;
    case Kind::kButton:
      if (event.code >= 0 && event.code < static_cast<int>(down_.size())) {
        down_[static_cast<std::size_t>(event.code)] = event.is_down;
      }
      break;
    case Kind::kWheel:
      ImGui_ImplGlfw_ScrollCallback(window_, event.x, event.y);
      break;
    case Kind::kKey:
      ImGui_ImplGlfw_KeyCallback(window_, event.code, event.scancode,
                                 event.is_down ? GLFW_PRESS : GLFW_RELEASE, 0);
      break;
    case Kind::kCharacter:
      ImGui_ImplGlfw_CharCallback(window_, static_cast<unsigned>(event.code));
      break;
  }
}

// ImGui_ImplGlfw_NewFrame reads the mouse as it is now, so the mouse of this frame's events is set
// after it.
void GlfwInput::NewFrame() {
  for (const InputEvent& event : queue_.TakeFrame()) Pass(event);
  ImGui_ImplGlfw_NewFrame();
  ImGuiIO& io = ImGui::GetIO();
  const bool is_dragging = std::find(down_.begin(), down_.end(), true) != down_.end();
  io.MousePos = is_inside_ || is_dragging ? ImVec2(static_cast<float>(x_), static_cast<float>(y_))
                                          : ImVec2(-FLT_MAX, -FLT_MAX);
  std::copy(down_.begin(), down_.end(), io.MouseDown);
}

std::vector<std::string> GlfwInput::TakeDropped() { return std::exchange(dropped_, {}); }

}  // namespace foretrain::ui

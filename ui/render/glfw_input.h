// Passes the input of a GLFW window to Dear ImGui.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ui/render/input_queue.h"

struct GLFWwindow;

namespace foretrain::ui {

// Takes over the window's callbacks and user pointer. The Dear ImGui context must outlive it.
class GlfwInput {
 public:
  explicit GlfwInput(GLFWwindow* window);
  ~GlfwInput();
  GlfwInput(const GlfwInput&) = delete;
  GlfwInput& operator=(const GlfwInput&) = delete;

  // Whether events wait for another frame.
  bool IsWaiting() const { return !queue_.IsEmpty(); }

  // Passes the events of the next frame. Call it before ImGui::NewFrame.
  void NewFrame();

  // Files dropped onto the window since the last call.
  std::vector<std::string> TakeDropped();

 private:
  void Pass(const InputEvent& event);

  GLFWwindow* window_;
  InputQueue queue_;
  std::vector<std::string> dropped_;
  std::array<bool, 5> down_{};  // buttons, as of the last frame
  bool is_inside_ = false;      // the mouse, as of the last frame
  double x_ = 0.0, y_ = 0.0;
};

}  // namespace foretrain::ui

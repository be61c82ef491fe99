#include "ui/view/desktop/input.h"

#include <imgui.h>

namespace foretrain::ui {

InputFrame ReadInput() {
  const ImGuiIO& io = ImGui::GetIO();
  InputFrame input;
  // Away from the window, the position is -FLT_MAX.
  if (ImGui::IsMousePosValid()) {
    input.x = io.MousePos.x;
    input.y = io.MousePos.y;
    input.dx = io.MouseDelta.x;
    input.dy = io.MouseDelta.y;
  }
  input.wheel = io.MouseWheel;
  input.wheel_x = io.MouseWheelH;
  input.down = io.MouseDown[0];
  input.pressed = ImGui::IsMouseClicked(ImGuiMouseButton_Left);
  input.released = ImGui::IsMouseReleased(ImGuiMouseButton_Left);
  input.double_clicked = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  input.shift = io.KeyShift;
  input.control = io.KeyCtrl;
  input.escape = ImGui::IsKeyPressed(kKeyEscape, false);
  if (!io.KeyCtrl) {  // with it they are commands
    input.left = io.KeysDown[kKeyA];
    input.right = io.KeysDown[kKeyD];
    input.nearer = io.KeysDown[kKeyW];
    input.farther = io.KeysDown[kKeyS];
  }
  input.arrows = (ImGui::IsKeyPressed(kKeyRight) ? 1 : 0) - (ImGui::IsKeyPressed(kKeyLeft) ? 1 : 0);
  input.home = ImGui::IsKeyPressed(kKeyHome, false);
  input.end = ImGui::IsKeyPressed(kKeyEnd, false);
  input.elapsed_s = io.DeltaTime;
  for (const ImWchar typed : io.InputQueueCharacters) {
    input.typed.push_back(static_cast<char32_t>(typed));
  }
  return input;
}

// The mouse is far outside and no button is down; keys stay.
InputFrame WithoutMouse(const InputFrame& input) {
  InputFrame without = input;
  without.x = without.y = -1.0F;
  without.dx = without.dy = without.wheel = without.wheel_x = 0.0F;
  without.down = without.pressed = without.double_clicked = false;
  return without;
}

// Input that a widget has taken is removed, so that typing in a field moves nothing.
InputFrame ForScreen(const InputFrame& input) {
  const ImGuiIO& io = ImGui::GetIO();
  InputFrame own = io.WantCaptureMouse ? WithoutMouse(input) : input;
  if (io.WantTextInput) {
    own.typed.clear();
    own.left = own.right = own.nearer = own.farther = own.escape = false;
    own.arrows = 0;
    own.home = own.end = false;
  }
  return own;
}

}  // namespace foretrain::ui

// Mouse and keyboard of the current Dear ImGui frame as the view model takes them.
#pragma once

#include "ui/view_model/interaction.h"

namespace foretrain::ui {

// Indices into ImGuiIO::KeysDown, those of GLFW.
inline constexpr int kKeyA = 65;
inline constexpr int kKeyD = 68;
inline constexpr int kKeyS = 83;
inline constexpr int kKeyW = 87;
inline constexpr int kKeyEscape = 256;
inline constexpr int kKeyEnter = 257;

// All there is, after ImGui::NewFrame.
InputFrame ReadInput();

// `input` without the mouse where it is over a widget, and without keys while a text field has them.
InputFrame ForScreen(const InputFrame& input);

// `input` without the mouse.
InputFrame WithoutMouse(const InputFrame& input);

}  // namespace foretrain::ui

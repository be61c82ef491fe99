// Mouse and keyboard of the current Dear ImGui frame as the view model takes them.
#pragma once

#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {

// Indices into ImGuiIO::KeysDown, those of GLFW.
inline constexpr int kKeyA = 65;
inline constexpr int kKeyD = 68;
inline constexpr int kKeyS = 83;
inline constexpr int kKeyW = 87;
inline constexpr int kKeyEscape = 256;
inline constexpr int kKeyEnter = 257;
inline constexpr int kKeyRight = 262;
inline constexpr int kKeyLeft = 263;
inline constexpr int kKeyHome = 268;
inline constexpr int kKeyEnd = 269;

// The input of this frame. Call it after ImGui::NewFrame.
InputFrame ReadInput();

// The part of `input` that a screen may use: no mouse while it is over a widget, no keys while a
// text field has them.
InputFrame ForScreen(const InputFrame& input);

// `input` without the mouse.
InputFrame WithoutMouse(const InputFrame& input);

}  // namespace foretrain::ui

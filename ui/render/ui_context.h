// One Dear ImGui context with the view's fonts, drawn by OpenGL 3. Leaves out where the OpenGL
// context and input come from.
#pragma once

#include <string>
#include <vector>

#include "ui/view/fonts.h"
#include "ui/view/theme.h"
#include "ui/view_model/layout.h"

struct ImGuiContext;

namespace foretrain::ui {

class UiContext {
 public:
  // Needs a current OpenGL 3.3 context, which must outlive this.
  UiContext(const std::vector<std::string>& font_folders, float scale);
  ~UiContext();
  UiContext(const UiContext&) = delete;
  UiContext& operator=(const UiContext&) = delete;

  const Fonts& fonts() const { return fonts_; }

  // Draws what was recorded since ImGui::NewFrame into the current framebuffer.
  void Render(const ViewSize& size, Colour ground);

 private:
  ImGuiContext* context_;
  Fonts fonts_;
};

}  // namespace foretrain::ui

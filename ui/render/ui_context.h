// One Dear ImGui context with the view's fonts, drawn by OpenGL 3. The caller supplies the OpenGL
// context and the input.
#pragma once

#include <string>
#include <vector>

#include "ui/view/widgets/fonts.h"
#include "ui/view/widgets/theme.h"
#include "ui/view_model/timeline/layout.h"

struct ImGuiContext;

namespace foretrain::ui {

class UiContext {
 public:
  // Requires a current OpenGL 3.3 context that outlives this object.
  UiContext(const std::vector<std::string>& font_folders, float scale);
  ~UiContext();
  UiContext(const UiContext&) = delete;
  UiContext& operator=(const UiContext&) = delete;

  const Fonts& fonts() const { return fonts_; }

  // Draws everything recorded since ImGui::NewFrame into the current framebuffer.
  void Render(const ViewSize& size, Colour ground);

 private:
  ImGuiContext* context_;
  Fonts fonts_;
};

}  // namespace foretrain::ui

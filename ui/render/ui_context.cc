#include "ui/render/ui_context.h"

#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include "ui/render/gl.h"

namespace foretrain::ui {
namespace {

float ChannelOf(Colour colour, int shift) {
  return static_cast<float>(colour >> shift & 0xFF) / 255.0F;
}

}  // namespace

UiContext::UiContext(const std::vector<std::string>& font_folders, float scale)
    : context_(ImGui::CreateContext()) {
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  fonts_ = LoadFonts(*io.Fonts, font_folders, scale);
  ImGui_ImplOpenGL3_Init("#version 330");
}

UiContext::~UiContext() {
  ImGui::SetCurrentContext(context_);
  ImGui_ImplOpenGL3_Shutdown();
  ImGui::DestroyContext(context_);
}

void UiContext::Render(const ViewSize& size, Colour ground) {
  ImGui::Render();
  glViewport(0, 0, static_cast<int>(size.width), static_cast<int>(size.height));
  glClearColor(ChannelOf(ground, 0), ChannelOf(ground, 8), ChannelOf(ground, 16), 1.0F);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

}  // namespace foretrain::ui

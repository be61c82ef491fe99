#include "ui/render/ui_context.h"

#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include <cstdint>

#include "ui/render/gl.h"

namespace foretrain::ui {
namespace {

float ChannelOf(Colour colour, int shift) {
  return static_cast<float>(colour >> shift & 0xFF) / 255.0F;
}

// Every pixel of every shape and glyph is read from the atlas. All lie on whole pixels, so nearest
// sampling is exact, and software renders it twice as fast.
void ReadNearest(const ImFontAtlas& atlas) {
  glBindTexture(GL_TEXTURE_2D,
                static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(atlas.TexID)));
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
}

}  // namespace

// No ini or log file: the view keeps its own settings. Lines are drawn as shapes, since textured
// lines need linear sampling of the atlas.
UiContext::UiContext(const std::vector<std::string>& font_folders, float scale)
    : context_(ImGui::CreateContext()) {
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  fonts_ = LoadFonts(*io.Fonts, font_folders, scale);
  ImGui_ImplOpenGL3_Init("#version 330");
  ImGui_ImplOpenGL3_CreateDeviceObjects();
  ReadNearest(*io.Fonts);
  ImGui::GetStyle().AntiAliasedLinesUseTex = false;
}

UiContext::~UiContext() {
  ImGui::SetCurrentContext(context_);
  ImGui_ImplOpenGL3_Shutdown();
  ImGui::DestroyContext(context_);
}

// The alpha of the ground is ignored: the window is opaque.
void UiContext::Render(const ViewSize& size, Colour ground) {
  ImGui::Render();
  glViewport(0, 0, static_cast<int>(size.width), static_cast<int>(size.height));
  glClearColor(ChannelOf(ground, 0), ChannelOf(ground, 8), ChannelOf(ground, 16), 1.0F);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

}  // namespace foretrain::ui

#include "ui/view/desktop/window_content.h"

#include <imgui.h>

#include "ui/view/desktop/input.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {

// The screen gets the whole window and all input that no widget has taken.
const FrameRecord& LoneScreen::Draw(const ViewSize& size, const Fonts& fonts,
                                    const InputFrame& input, ImageSink& images) {
  const Theme theme = light_ ? LightTheme() : DarkTheme();
  ApplyStyle(theme, size.scale);
  record_ = {};
  Canvas canvas{*ImGui::GetBackgroundDrawList(), theme, fonts, size.scale, record_};
  const Box window{0.0F, 0.0F, size.width, size.height};
  canvas.Fill(window, theme.ground);
  screen_.Draw({window, canvas, ForScreen(input), images});
  return record_;
}

Colour LoneScreen::ground() const { return (light_ ? LightTheme() : DarkTheme()).ground; }

}  // namespace foretrain::ui

// One page of the desktop, and its inputs for drawing a frame.
#pragma once

#include <string>
#include <vector>

#include "ui/view/lanes/image_sink.h"
#include "ui/view/widgets/canvas.h"
#include "ui/view_model/timeline/interaction.h"
#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

struct ScreenFrame {
  Box box{};       // where it may draw, in pixels
  Canvas& canvas;  // shapes and text below all widgets; theme, fonts, record of what was drawn
  const InputFrame& input;  // mouse and keys; empty while another part has them
  ImageSink& images;        // textures kept between frames
};

struct HelpLine {
  std::string keys{};  // "shift + drag"
  std::string what{};  // "measure a stretch of time"
};

class Screen {
 public:
  virtual ~Screen() = default;

  // One frame on the current Dear ImGui context, between NewFrame and Render.
  virtual void Draw(const ScreenFrame& frame) = 0;

  // Whether the next frame may differ from this one without new input.
  virtual bool IsMoving() const { return false; }

  // Whether it shows progress from elsewhere and must be drawn about once a second.
  virtual bool IsWatching() const { return false; }

  // The screen's settings, in a few words each, for the top bar: "aligned at step start".
  virtual std::vector<std::string> Chips() const { return {}; }

  // Its own keys, for the help.
  virtual std::vector<HelpLine> Help() const { return {}; }
};

}  // namespace foretrain::ui

// Keeps images as OpenGL textures and shows them pixel by pixel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ui/view/desktop/window_content.h"
#include "ui/view/lanes/image_sink.h"

namespace foretrain::ui {

// Requires a current OpenGL context from the first Keep until destruction.
class GlImages : public ImageSink {
 public:
  GlImages() = default;
  ~GlImages() override;
  GlImages(const GlImages&) = delete;
  GlImages& operator=(const GlImages&) = delete;

  Picture Keep(const std::string& name, const Image& image) override;

  // The pixels of a texture that Keep has made; empty of any other.
  Image Read(void* texture) const;

 private:
  void DrawOpaque();

  std::map<std::string, unsigned> textures_;  // by name
  std::vector<Colour> swapped_;               // scratch copy of the current image
  unsigned opaque_program_ = 0;  // copies a texture without blending; 0 if not created yet
};

// The pixels of the current framebuffer of `size`, the top row first. Needs an OpenGL context.
Image ReadFrame(const ViewSize& size);

}  // namespace foretrain::ui

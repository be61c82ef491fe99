// Images as OpenGL textures, one pixel a pixel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ui/view/image_sink.h"

namespace foretrain::ui {

// Needs a current OpenGL context from the first Keep to the end.
class GlImages : public ImageSink {
 public:
  GlImages() = default;
  ~GlImages() override;
  GlImages(const GlImages&) = delete;
  GlImages& operator=(const GlImages&) = delete;

  Picture Keep(const std::string& name, const Image& image) override;

 private:
  void DrawOpaque();

  std::map<std::string, unsigned> textures_;  // by name
  std::vector<Colour> swapped_;               // of the image at hand
  unsigned opaque_program_ = 0;               // draws a texture as it is; 0: not made yet
};

}  // namespace foretrain::ui

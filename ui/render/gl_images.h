// Images as OpenGL textures, one pixel a pixel.
#pragma once

#include <array>

#include "ui/view/image_sink.h"

namespace foretrain::ui {

// Needs a current OpenGL context from the first Keep to the end.
class GlImages : public ImageSink {
 public:
  GlImages() = default;
  ~GlImages() override;
  GlImages(const GlImages&) = delete;
  GlImages& operator=(const GlImages&) = delete;

  void* Keep(Picture picture, const Image& image) override;

 private:
  std::array<unsigned, 2> textures_{};  // 0: not made yet
};

}  // namespace foretrain::ui

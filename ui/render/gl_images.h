// Images as OpenGL textures, one pixel a pixel.
#pragma once

#include <map>
#include <string>

#include "ui/view/image_sink.h"

namespace foretrain::ui {

// Needs a current OpenGL context from the first Keep to the end.
class GlImages : public ImageSink {
 public:
  GlImages() = default;
  ~GlImages() override;
  GlImages(const GlImages&) = delete;
  GlImages& operator=(const GlImages&) = delete;

  void* Keep(const std::string& name, const Image& image) override;

 private:
  std::map<std::string, unsigned> textures_;  // by name
};

}  // namespace foretrain::ui

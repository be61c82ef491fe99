// Where images of pixels become textures that a Canvas can draw.
#pragma once

#include <string>

#include "ui/view/canvas.h"

namespace foretrain::ui {

class ImageSink {
 public:
  virtual ~ImageSink() = default;

  // Keeps `image` under `name` ("compare.lanes") in place of the one before and returns what Canvas::Picture
  // takes; null where images cannot be shown.
  virtual void* Keep(const std::string& name, const Image& image) = 0;
};

}  // namespace foretrain::ui

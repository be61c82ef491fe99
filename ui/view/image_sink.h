// Where images of pixels become pictures that a Canvas can show.
#pragma once

#include <string>

#include "ui/view/canvas.h"

namespace foretrain::ui {

class ImageSink {
 public:
  virtual ~ImageSink() = default;

  // Keeps `image` under `name` ("compare.lanes") in place of the one before.
  virtual Picture Keep(const std::string& name, const Image& image) = 0;
};

}  // namespace foretrain::ui

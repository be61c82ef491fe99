// Interface that turns images of pixels into pictures that a Canvas can show.
#pragma once

#include <string>

#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

class ImageSink {
 public:
  virtual ~ImageSink() = default;

  // Keeps `image` under `name` ("compare.lanes") and replaces the previous one.
  virtual Picture Keep(const std::string& name, const Image& image) = 0;
};

}  // namespace foretrain::ui

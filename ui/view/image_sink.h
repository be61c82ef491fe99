// Where images of pixels become textures that a Canvas can draw.
#pragma once

#include "ui/view/canvas.h"

namespace foretrain::ui {

// Images that are kept at once, each under its own name.
enum class Picture { kLanes, kMemory };

class ImageSink {
 public:
  virtual ~ImageSink() = default;

  // Keeps `image` under `picture` in place of the one before and returns what Canvas::Picture
  // takes; null where images cannot be shown.
  virtual void* Keep(Picture picture, const Image& image) = 0;
};

}  // namespace foretrain::ui

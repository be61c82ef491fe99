// Pictures as PNG files.
#pragma once

#include <string>

#include "base/result.h"
#include "ui/view/canvas.h"

namespace foretrain::ui {

// Writes `image` to `path` without its alpha: first beside it, then renamed, so that `path` is
// never half a picture. Errors: kIo.
Result<void> WritePng(const Image& image, const std::string& path);

// Errors: kInvalidArgument, it cannot be opened; kCorruptInput, it is no PNG or over 16384 pixels a
// side.
Result<Image> ReadPng(const std::string& path);

}  // namespace foretrain::ui

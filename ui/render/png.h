// Writes images as PNG files.
#pragma once

#include <string>

#include "base/result.h"
#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

// Writes `image` to `path` without its alpha: to a temporary file first, then renamed, so that
// `path` is never half written. Errors: kIo.
Result<void> WritePng(const Image& image, const std::string& path);

}  // namespace foretrain::ui

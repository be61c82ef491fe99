// Reads PNG files, to compare them with what was drawn.
#pragma once

#include <string>

#include "base/result.h"
#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

// Errors: kInvalidArgument if the file does not exist; kCorruptInput if it is no PNG.
Result<Image> ReadPng(const std::string& path);

}  // namespace foretrain::ui

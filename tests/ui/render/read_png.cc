#include "tests/ui/render/read_png.h"

#include <png.h>

#include <filesystem>

namespace foretrain::ui {

// libpng frees its record by itself, on an error as after the last call.
Result<Image> ReadPng(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    return Fail(ErrorCode::kInvalidArgument, path + ": no such file");
  }
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&png, path.c_str()) == 0) {
    return Fail(ErrorCode::kCorruptInput, path + ": " + png.message);
  }
  png.format = PNG_FORMAT_RGBA;
  Image image;
  image.Resize(static_cast<int>(png.width), static_cast<int>(png.height));
  if (png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr) == 0) {
    return Fail(ErrorCode::kCorruptInput, path + ": " + png.message);
  }
  return image;
}

}  // namespace foretrain::ui

#include "ui/render/png.h"

#include <fmt/format.h>
#include <png.h>

#include <cstdio>

#include "base/io/file_system.h"

namespace foretrain::ui {
namespace {

// Red, green and blue of each pixel, row by row.
std::vector<unsigned char> WithoutAlpha(const Image& image) {
  std::vector<unsigned char> bytes;
  bytes.reserve(3 * image.pixels.size());
  for (const Colour pixel : image.pixels) {
    for (const int shift : {0, 8, 16}) {
      bytes.push_back(static_cast<unsigned char>(pixel >> shift & 0xFF));
    }
  }
  return bytes;
}

// libpng's record of a picture, freed on destruction.
struct PngImage {
  png_image image{};
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

}  // namespace

// libpng reports errors as text in the image record, so it is copied before the temporary file is
// removed.
Result<void> WritePng(const Image& image, const std::string& path) {
  PngImage png;
  png.image.width = static_cast<png_uint_32>(image.width);
  png.image.height = static_cast<png_uint_32>(image.height);
  png.image.format = PNG_FORMAT_RGB;
  const std::vector<unsigned char> bytes = WithoutAlpha(image);
  const std::string partial = path + ".part";
  if (png_image_write_to_file(&png.image, partial.c_str(), 0, bytes.data(), 0, nullptr) == 0) {
    const std::string why = png.image.message;
    std::remove(partial.c_str());
    return Fail(ErrorCode::kIo, fmt::format("{}: cannot be written: {}", path, why));
  }
  PosixFileSystem files;
  Result<void> renamed = files.Rename(partial, path);
  if (!renamed.has_value()) std::remove(partial.c_str());
  return renamed;
}

}  // namespace foretrain::ui

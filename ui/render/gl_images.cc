#include "ui/render/gl_images.h"

#include <cstdint>

#include "ui/render/gl.h"

namespace foretrain::ui {

GlImages::~GlImages() {
  for (const auto& [name, texture] : textures_) glDeleteTextures(1, &texture);
}

void* GlImages::Keep(const std::string& name, const Image& image) {
  if (image.width == 0 || image.height == 0) return nullptr;
  unsigned& texture = textures_[name];  // 0: not made yet
  if (texture == 0) glGenTextures(1, &texture);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, image.width, image.height, 0, GL_RGBA, GL_UNSIGNED_BYTE,
               image.pixels.data());
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(texture));
}

}  // namespace foretrain::ui

#include "ui/render/gl_images.h"

#include <imgui.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "ui/render/gl.h"

namespace foretrain::ui {
namespace {

constexpr const char* kVertexSource = R"(#version 330 core
uniform mat4 ProjMtx;
in vec2 Position;
in vec2 UV;
out vec2 Frag_UV;
void main() {
  Frag_UV = UV;
  gl_Position = ProjMtx * vec4(Position, 0, 1);
}
)";

constexpr const char* kFragmentSource = R"(#version 330 core
uniform sampler2D Texture;
in vec2 Frag_UV;
out vec4 Out_Color;
void main() {
  Out_Color = texture(Texture, Frag_UV);
}
)";

// Converts between the order of Colour and that of kFastOrder.
Colour RedAndBlueSwapped(Colour colour) {
  return (colour & 0xff00ff00U) | (colour & 0xffU) << 16 | (colour >> 16 & 0xffU);
}

// A program that reads the same vertices as `like`; 0 if the driver rejects it.
unsigned MakeOpaqueProgram(unsigned like) {
  const unsigned program = glCreateProgram();
  for (const char* const name : {"Position", "UV"}) {
    const int at = glGetAttribLocation(like, name);
    if (at >= 0) glBindAttribLocation(program, static_cast<unsigned>(at), name);
  }
  for (const auto& [kind, source] :
       {std::pair(GL_VERTEX_SHADER, kVertexSource), {GL_FRAGMENT_SHADER, kFragmentSource}}) {
    const unsigned shader = glCreateShader(static_cast<unsigned>(kind));
    glShaderSource(shader, 1, &source, nullptr);
    glCompileShader(shader);
    glAttachShader(program, shader);
    glDeleteShader(shader);
  }
  glLinkProgram(program);
  int linked = GL_FALSE;
  glGetProgramiv(program, GL_LINK_STATUS, &linked);
  if (linked == GL_TRUE) return program;
  glDeleteProgram(program);
  return 0;
}

}  // namespace

GlImages::~GlImages() {
  for (const auto& [name, texture] : textures_) glDeleteTextures(1, &texture);
  if (opaque_program_ != 0) glDeleteProgram(opaque_program_);
}

// One texture per name, filled anew by each call. Opaque images take the driver's fast path: fast
// channel order, and a program that copies without blending. Others are blended by Dear ImGui's own
// program.
Picture GlImages::Keep(const std::string& name, const Image& image) {
  if (image.width == 0 || image.height == 0) return {};
  unsigned& texture = textures_[name];  // 0 if not created yet
  if (texture == 0) glGenTextures(1, &texture);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  Picture picture{.texture = reinterpret_cast<void*>(static_cast<std::uintptr_t>(texture))};
  if (!image.opaque) {
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, image.width, image.height, 0, GL_RGBA, GL_UNSIGNED_BYTE,
                 image.pixels.data());
    return picture;
  }
  // The copy costs less than the driver's slow path for the usual channel order.
  swapped_.resize(image.pixels.size());
  std::transform(image.pixels.begin(), image.pixels.end(), swapped_.begin(), RedAndBlueSwapped);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, image.width, image.height, 0, kFastOrder, kFastType,
               swapped_.data());
  picture.opaque = [](const ImDrawList*, const ImDrawCmd* command) {
    static_cast<GlImages*>(command->UserCallbackData)->DrawOpaque();
  };
  picture.of = this;
  return picture;
}

Image GlImages::Read(void* texture) const {
  const auto wanted = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(texture));
  const bool known = std::any_of(textures_.begin(), textures_.end(),
                                 [&](const auto& of) { return of.second == wanted; });
  Image image;
  if (!known) return image;
  glBindTexture(GL_TEXTURE_2D, wanted);
  int width = 0, height = 0;
  glGetTexLevelParameteriv(GL_TEXTURE_2D, 0, GL_TEXTURE_WIDTH, &width);
  glGetTexLevelParameteriv(GL_TEXTURE_2D, 0, GL_TEXTURE_HEIGHT, &height);
  image.Resize(width, height);
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
  glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, image.pixels.data());
  return image;
}

// Replaces Dear ImGui's program until its state is reset: the same vertices and projection, but no
// blending.
void GlImages::DrawOpaque() {
  int usual = 0;
  glGetIntegerv(GL_CURRENT_PROGRAM, &usual);
  const auto like = static_cast<unsigned>(usual);
  if (opaque_program_ == 0) opaque_program_ = MakeOpaqueProgram(like);
  if (opaque_program_ == 0) return;
  std::array<float, 16> projection{};
  glGetUniformfv(like, glGetUniformLocation(like, "ProjMtx"), projection.data());
  glUseProgram(opaque_program_);
  glUniformMatrix4fv(glGetUniformLocation(opaque_program_, "ProjMtx"), 1, GL_FALSE,
                     projection.data());
  glDisable(GL_BLEND);
}

// OpenGL's first row is the bottom one.
Image ReadFrame(const ViewSize& size) {
  Image image;
  image.Resize(static_cast<int>(size.width), static_cast<int>(size.height));
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
  glReadPixels(0, 0, image.width, image.height, GL_RGBA, GL_UNSIGNED_BYTE, image.pixels.data());
  for (int y = 0; y < image.height / 2; ++y) {
    const auto row = [&image](int at) {
      return image.pixels.begin() + static_cast<std::ptrdiff_t>(at) * image.width;
    };
    std::swap_ranges(row(y), row(y + 1), row(image.height - 1 - y));
  }
  return image;
}

}  // namespace foretrain::ui

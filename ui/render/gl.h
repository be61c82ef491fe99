// Declarations of OpenGL 3.3, in the only order of includes that works.
#pragma once

#define GL_GLEXT_PROTOTYPES
#define GLFW_INCLUDE_GLEXT
#include <GLFW/glfw3.h>

namespace foretrain::ui {

// Channel order that Mesa's software driver copies at a tenth of the usual cost (llvmpipe,
// lp_linear.c). The framebuffer and opaque textures use it. Other textures must not: with this
// order Mesa 22.3 multiplies a texture by a colour wrongly.
inline constexpr unsigned kFastOrder = GL_BGRA;
inline constexpr unsigned kFastType = GL_UNSIGNED_INT_8_8_8_8_REV;

}  // namespace foretrain::ui

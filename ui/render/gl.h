// OpenGL 3.3's declarations, in the one order of includes that works.
#pragma once

#define GL_GLEXT_PROTOTYPES
#define GLFW_INCLUDE_GLEXT
#include <GLFW/glfw3.h>

namespace foretrain::ui {

// The order of channels in which Mesa's software driver copies a texture's pixels at a tenth of the
// usual cost (llvmpipe, lp_linear.c): what is drawn into has it, and textures that are drawn as
// they are. Others must not: with this order, Mesa 22.3 multiplies a texture by a colour wrongly.
inline constexpr unsigned kFastOrder = GL_BGRA;
inline constexpr unsigned kFastType = GL_UNSIGNED_INT_8_8_8_8_REV;

}  // namespace foretrain::ui

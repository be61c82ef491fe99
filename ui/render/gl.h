// OpenGL 3.3's declarations, in the one order of includes that works.
#pragma once

#define GL_GLEXT_PROTOTYPES
#define GLFW_INCLUDE_GLEXT
#include <GLFW/glfw3.h>

// Gives the machine back what was freed. Leaves out C libraries that do so by themselves.
#pragma once

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace foretrain {

// Of all threads. Some milliseconds.
inline void ReturnFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace foretrain

// Returns freed memory to the operating system. Does nothing without glibc: other C libraries
// return it by themselves.
#pragma once

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace foretrain {

// Covers the memory of all threads. Takes some milliseconds.
inline void ReturnFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace foretrain

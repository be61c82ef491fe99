// Byte offsets from an address.
#pragma once

#include <cstdint>

namespace foretrain {

inline const char* At(const void* base, std::int64_t bytes) {
  return static_cast<const char*>(base) + bytes;
}
inline char* At(void* base, std::int64_t bytes) { return static_cast<char*>(base) + bytes; }

}  // namespace foretrain

// Makes the tensors of descriptions: a name, the member that points to it, its dtype and extent.
#pragma once

#include "kernels/arguments/reader.h"

namespace foretrain {

constexpr bool kOptional = false;  // as `required`

inline Extent Rows(std::int64_t rows, std::int64_t cols) { return {rows, cols, cols}; }
inline Extent Row(std::int64_t elements) { return {1, elements, elements}; }

inline Tensor Read(const char* name, const void*& at, FtDtype dtype, const Extent& extent,
                   bool required = true) {
  return {name, at, &at, dtype, extent, Access::kRead, required};
}
// For a member that is written in other calls.
inline Tensor Read(const char* name, void*& at, FtDtype dtype, const Extent& extent,
                   bool required = true) {
  return Read(name, const_cast<const void*&>(at), dtype, extent, required);
}
inline Tensor ReadWrite(const char* name, void*& at, FtDtype dtype, const Extent& extent,
                        bool required = true) {
  return {name, at, const_cast<const void**>(&at), dtype, extent, Access::kReadWrite, required};
}
inline Tensor Write(const char* name, void*& at, FtDtype dtype, const Extent& extent,
                    bool required = true) {
  Tensor tensor = ReadWrite(name, at, dtype, extent, required);
  tensor.access = Access::kWrite;
  return tensor;
}
// An output that is overwritten, or added to if accumulate != 0.
inline Tensor Sum(const char* name, void*& at, FtDtype dtype, const Extent& extent,
                  std::int32_t accumulate, bool required = true) {
  return accumulate != 0 ? ReadWrite(name, at, dtype, extent, required)
                         : Write(name, at, dtype, extent, required);
}
// Numbers, or 8-bit codes with scales.
inline Tensor ReadCodes(const char* name, const void*& at, FtDtype dtype, const Extent& extent,
                        FtScaling scaling, const float*& scales, bool required = true) {
  return {name, at, &at, dtype, extent, Access::kRead, required, scaling, &scales};
}
// A tensor of a C type or of opaque bytes, which is never copied.
inline Tensor Plain(const char* name, const void* at, const Extent& extent, bool required = true) {
  return {name, at, nullptr, FT_F32, extent, Access::kRead, required};
}

}  // namespace foretrain

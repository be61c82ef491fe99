// Makes tensor maps for bulk copies (kernels/cuda/hopper/warpgroup.cuh). The driver function is
// looked up on first use, so that the plugin loads with drivers that lack it.
#pragma once

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// A CUtensorMap. Kernels take it as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

// A tensor of 16-bit values [planes, rows, cols] without gaps, and the box of one copy: 64 columns
// of box_rows rows of one plane, to rows of 128 bytes with 128-byte swizzle.
struct TensorBox {
  const void* at;  // aligned to 16 bytes
  FtDtype dtype;
  std::int64_t cols, rows, planes;  // above 0; cols a multiple of 8
  int box_rows;                     // at most 256
};

// FT_FAILED with a sentence in the queue if the driver refuses.
FtStatus MakeTensorMap(FtQueue* queue, const char* kernel, const TensorBox& box, TensorMap* out);

}  // namespace foretrain

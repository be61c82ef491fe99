// Block scales of codes in the order that cuBLASLt reads. library_products.cu decides which
// products use them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// An operand whose block scales run along the depth of a product.
struct BlockScales {
  const float* at;
  FtScaling scaling;
  bool turned;        // stored as [depth, rows] instead of [rows, depth]
  std::int64_t rows;  // rows of the operand
  std::int64_t depth;

  bool AreTiles() const { return scaling == FT_SCALE_TILES; }
  bool RunAlongDepth() const {
    return AreTiles() || scaling == (turned ? FT_SCALE_COLUMNS : FT_SCALE_ROWS);
  }
};

// Bytes for the scales of `rows` rows, a multiple of 256.
std::int64_t LibraryScaleBytes(const BlockScales& scales, std::int64_t rows);

// The scales of rows [first, first + rows); for tiles `first` must be a multiple of 128. Row scales
// are ordered as [depth / 128, rows], tile scales as [rows / 128, depth / 128 rounded up to 4].
// Quotients are rounded up (cuBLAS, section "128-element 1D and 128x128 2D Block Scaling"). If they
// do not lie so already, they are written to `to`, which has LibraryScaleBytes bytes; enqueued.
const float* LibraryScales(FtQueue* queue, const BlockScales& scales, std::int64_t first,
                           std::int64_t rows, std::byte* to);

}  // namespace foretrain

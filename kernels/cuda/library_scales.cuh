// Scales of blocks of codes in the order that cuBLASLt reads them in. Leaves out which products it
// takes with them: library_products.cu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// An operand with scales of blocks that run along the depth of a product.
struct BlockScales {
  const float* at;
  FtScaling scaling;
  bool turned;        // the matrix is stored as [depth, rows], else as [rows, depth]
  std::int64_t rows;  // of the operand
  std::int64_t depth;

  bool AreTiles() const { return scaling == FT_SCALE_TILES; }
  bool RunAlongDepth() const {
    return AreTiles() || scaling == (turned ? FT_SCALE_COLUMNS : FT_SCALE_ROWS);
  }
};

// What the scales of `rows` rows take, in bytes, a multiple of 256.
std::int64_t LibraryScaleBytes(const BlockScales& scales, std::int64_t rows);

// The scales of rows [first, first + rows), `first` a multiple of 128 where they are of squares:
// of each 128 of a row as [depth / 128, rows], of squares as [rows / 128, depth / 128], that
// rounded up to 4, quotients rounded up (cuBLAS, section "128-element 1D and 128x128 2D Block
// Scaling"). Written to `to`, enqueued, where they do not lie so already; `to` has
// LibraryScaleBytes bytes.
const float* LibraryScales(FtQueue* queue, const BlockScales& scales, std::int64_t first,
                           std::int64_t rows, std::byte* to);

}  // namespace foretrain

// A residual addition fused with the norm that follows it.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/elementwise.h"
#include "kernels/cpu/vector/rows.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Works row by row, so that the norm reads the sum from the cache.
inline void AddNormForward(const FtAddNormForward& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t at = row * g.cols;
    Add({Floats(g.a) + at, Floats(g.b) + at, g.bias, Floats(g.sum) + at, 1, g.cols, g.dtype,
         g.weight_dtype});
    NormForward({Floats(g.sum) + at, g.weight, g.norm_bias, Floats(g.y) + at,
                 g.mean == nullptr ? nullptr : g.mean + row, g.rstd + row, 1, g.cols, g.epsilon,
                 g.rms, g.dtype, g.weight_dtype});
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

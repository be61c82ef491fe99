// Converts fp32 values to the formats of compressed communication, and back.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "base/numeric/number_formats.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/cpu/vector/update.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Quantizes a block so that the largest code stands for its largest |x|. If the scale is not
// finite, every value of the block decodes to NaN or infinity (0 * inf is NaN).
FT_INLINE void QuantizeBlock(const FtQuantize& g, const float* x, int64_t n, uint8_t* codes,
                             float* scale) {
  const float top = g.format == FT_FP8 ? 448.0F : 127.0F;
  const float largest = LargestOf(x, n);
  *scale = largest / top;
  const float inverse = InverseOf(largest, top);
  if (g.format == FT_FP8) {
    for (int64_t i = 0; i < n; ++i) {
      const float scaled = x[i] * inverse;
      codes[i] = Fp8OfFloat(scaled > 448.0F ? 448.0F : scaled < -448.0F ? -448.0F : scaled);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      codes[i] = static_cast<uint8_t>(Int8OfFloat(x[i] * inverse));
    }
  }
}

// Inverts QuantizeBlock up to its rounding.
FT_INLINE void DequantizeBlock(const FtQuantize& g, const uint8_t* codes, float scale, int64_t n,
                               float* out) {
  if (g.format == FT_FP8) {
    for (int64_t i = 0; i < n; ++i) out[i] = FloatOfFp8(codes[i]) * scale;
  } else {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * scale;
    }
  }
}

// Bytes of a quantized piece of n values. 4 divides n, so that the scales after the codes are
// aligned.
FT_INLINE int64_t PieceBytes(FtDtype format, int64_t n) {
  if (format == FT_BF16) return 2 * n;
  return n + (n + FT_SCALE_BLOCK - 1) / FT_SCALE_BLOCK * 4;
}

// Each piece is what one rank sends: its codes, then one scale for each block. bf16 pieces have no
// scales.
inline void Quantize(const FtQuantize& g) {
  const int64_t n = g.elements / g.pieces;
  for (int64_t piece = 0; piece < g.pieces; ++piece) {
    const float* x = Floats(g.x) + piece * n;
    uint8_t* out = static_cast<uint8_t*>(g.out) + piece * PieceBytes(g.format, n);
    if (g.format == FT_BF16) {
      uint16_t* to = reinterpret_cast<uint16_t*>(out);
      for (int64_t i = 0; i < n; ++i) to[i] = Bf16OfFloat(x[i]);
      continue;
    }
    float* scales = reinterpret_cast<float*>(out + n);
    for (int64_t begin = 0; begin < n; begin += FT_SCALE_BLOCK) {
      QuantizeBlock(g, x + begin, Least(FT_SCALE_BLOCK, n - begin), out + begin,
                    scales + begin / FT_SCALE_BLOCK);
    }
  }
}

inline void Dequantize(const FtQuantize& g) {
  const int64_t n = g.elements / g.pieces;
  for (int64_t piece = 0; piece < g.pieces; ++piece) {
    const uint8_t* x = static_cast<const uint8_t*>(g.x) + piece * PieceBytes(g.format, n);
    float* out = Floats(g.out) + piece * n;
    if (g.format == FT_BF16) {
      const uint16_t* from = reinterpret_cast<const uint16_t*>(x);
      for (int64_t i = 0; i < n; ++i) out[i] = FloatOfBf16(from[i]);
      continue;
    }
    const float* scales = reinterpret_cast<const float*>(x + n);
    for (int64_t begin = 0; begin < n; begin += FT_SCALE_BLOCK) {
      DequantizeBlock(g, x + begin, scales[begin / FT_SCALE_BLOCK],
                      Least(FT_SCALE_BLOCK, n - begin), out + begin);
    }
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

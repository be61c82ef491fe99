// Inner loop of all matrix products: a tile of C held in registers, a[rows, depth] * b[depth,
// columns].
#pragma once

#include <stdint.h>

#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Rows and vectors of the largest tiles. GEMM packs both operands; attention packs only one, so its
// tile is wider and reads fewer rows of A per step. Both leave registers (of 32, 16 or 16) for one
// row of B and one element of A.
#if defined(__AVX512F__)
constexpr int kTileRows = 14;
constexpr int kTileVectors = 2;
constexpr int kStripRows = 6;
constexpr int kStripVectors = 4;
#elif defined(__AVX2__)
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;
constexpr int kStripRows = 6;
constexpr int kStripVectors = 2;
#else
constexpr int kTileRows = 4;
constexpr int kTileVectors = 3;
constexpr int kStripRows = 4;
constexpr int kStripVectors = 3;
#endif
constexpr int64_t kTileColumns = kTileVectors * kLanes;

// tile[i][j] += sum over k of a[i * a_row + k * a_depth] * b[k * b_depth + j], in the order of k.
template <int kRows, int kVectors>
FT_INLINE void MultiplyInto(Vector (&tile)[kRows][kVectors], int64_t depth, const float* a,
                            int64_t a_row, int64_t a_depth, const float* b, int64_t b_depth) {
  for (int64_t k = 0; k < depth; ++k) {
    Vector row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      row[j] = Load(b + j * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector x = Set(a[i * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        tile[i][j] += x * row[j];
      }
    }
    a += a_depth;
    b += b_depth;
  }
}

// Storage order of A: row after row, or column after column.
enum class Along { kRow, kColumn };

// Product of two blocks with any number of rows; it overwrites a block of C or adds to it. C's rows
// are whole vectors.
struct StripArguments {
  int64_t depth;
  const float* a;
  int64_t a_stride;  // distance between rows of A; for kColumn, of its transpose
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  const float* scale;  // [rows]: C is multiplied by it before the addition; NULL: C is overwritten
};

// One tile of the given size. All sizes are template arguments: the accumulators stay in registers
// only if every index is a constant.
template <Along kAlong, int kRows, int kVectors>
void Strip(const StripArguments& s) {
  Vector tile[kRows][kVectors] = {};
  if constexpr (kAlong == Along::kRow) {
    MultiplyInto(tile, s.depth, s.a, s.a_stride, 1, s.b, s.b_stride);
  } else {
    MultiplyInto(tile, s.depth, s.a, 1, s.a_stride, s.b, s.b_stride);
  }
  // Local copies: a vector store might alias the arguments.
  const float* scale = s.scale;
  float* c = s.c;
  const int64_t c_stride = s.c_stride;
  if (scale != nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        tile[i][j] += Load(c + i * c_stride + j * kLanes) * scale[i];
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      Store(c + i * c_stride + j * kLanes, tile[i][j]);
    }
  }
}

// Table of Strip instances for every size up to the largest tile, so that loops unroll fully.
using StripFunction = void (*)(const StripArguments&);

template <Along kAlong, int... kSize>
FT_INLINE StripFunction StripOf(int64_t rows, int64_t vectors, Indices<kSize...>) {
  static constexpr StripFunction kFunctions[] = {
      &Strip<kAlong, kSize / kStripVectors + 1, kSize % kStripVectors + 1>...};
  return kFunctions[(rows - 1) * kStripVectors + vectors - 1];
}

// Computes one strip of at most kStripRows rows and any number of vectors.
template <Along kAlong>
FT_INLINE void StripProduct(StripArguments s, int64_t rows, int64_t vectors) {
  for (int64_t v = 0; v < vectors; v += kStripVectors) {
    const int64_t count = Least(kStripVectors, vectors - v);
    StripOf<kAlong>(rows, count, MakeIndices<kStripRows * kStripVectors>{})(s);
    s.b += count * kLanes;
    s.c += count * kLanes;
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

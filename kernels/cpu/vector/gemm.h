// The built-in GEMM. Operands are packed block by block into the order in which the tile reads them
// (Goto and van de Geijn 2008). The bits of an element depend only on its row of A, its column of B
// and k, not on m, n or its position.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "base/numeric/number_formats.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/cpu/vector/tile.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

static_assert(kGemmRows % kTileRows == 0 && kGemmColumns % kTileColumns == 0,
              "blocks are whole panels");

// panel[k * kWidth + r] = from[r * stride + k] for r in [0, rows), k in [0, depth); 0 for r in
// [rows, kWidth). Reads squares of kLanes vectors and transposes them in registers, so that loads
// and stores are whole vectors. May write one vector past the panel's end.
template <int kWidth>
FT_INLINE void PackTransposed(const float* from, int64_t stride, int64_t rows, int64_t depth,
                              float* panel) {
  static_assert(kWidth <= kLanes || kWidth % kLanes == 0, "vectors overlap only to the right");
  for (int64_t k = 0; k < depth; k += kLanes) {
    const int64_t wide = Least(kLanes, depth - k);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kWidth; r += kLanes) {
      Vector square[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        square[i] = r + i < rows ? LoadPart(from + (r + i) * stride + k, wide) : Vector{};
      }
      Transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (i < wide) {
          Store(panel + (k + i) * kWidth + r, square[i]);
        }
      }
    }
  }
}

// panel[k * kWidth + c] = from[k * stride + c] for c in [0, columns), k in [0, depth); 0 for c in
// [columns, kWidth). May write one vector past the panel's end.
template <int kWidth>
FT_INLINE void PackRows(const float* from, int64_t stride, int64_t columns, int64_t depth,
                        float* panel) {
  for (int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < kWidth; c += kLanes) {
      const int64_t valid = Clamp(columns - c, 0, kWidth - c < kLanes ? kWidth - c : kLanes);
      Store(panel + k * kWidth + c,
            valid == kLanes ? Load(from + k * stride + c) : LoadPart(from + k * stride + c, valid));
    }
  }
}

// A block of C, and the terms that are added to the product.
struct GemmOutput {
  float* c;
  int64_t ldc, rows, columns;
  const float* bias;  // starts at the first column; NULL if none
  bool add;           // add to the values of C instead of overwriting them
};

// A full tile of kTileRows x kTileColumns. It is a separate function, so that the tile owns all
// registers. When it was inlined, g++ kept one accumulator in memory, which cost 25 % of the speed.
__attribute__((noinline)) inline void WholeTile(const float* a, const float* b, int64_t depth,
                                                const GemmOutput& to) {
  Vector tile[kTileRows][kTileVectors] = {};
  MultiplyInto(tile, depth, a, 1, kTileRows, b, kTileColumns);
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) {
      float* at = to.c + i * to.ldc + j * kLanes;
      Vector v = tile[i][j];
      if (to.bias != nullptr) {
        v += Load(to.bias + j * kLanes);
      }
      if (to.add) {
        v += Load(at);
      }
      Store(at, v);
    }
  }
}

// A tile at the edge of C: computed in full, then only to.rows x to.columns are written. The packed
// zeros make the extra work harmless, and an edge element has the same bits as an inner one.
__attribute__((noinline)) inline void PartTile(const float* a, const float* b, int64_t depth,
                                               const GemmOutput& to) {
  float tile[kTileRows * kTileColumns];
  WholeTile(a, b, depth,
            {.c = tile,
             .ldc = kTileColumns,
             .rows = kTileRows,
             .columns = kTileColumns,
             .bias = nullptr,
             .add = false});
  for (int64_t i = 0; i < to.rows; ++i) {
    ForEachVector(
        to.columns, [&](int64_t j, auto access) __attribute__((always_inline)) {
          float* at = to.c + i * to.ldc + j;
          Vector v = Load(tile + i * kTileColumns + j);
          v = to.bias == nullptr ? v : v + access.load(to.bias + j);
          access.store(at, to.add ? v + access.load(at) : v);
        });
  }
}

// Multiplies one block: packed a[rows, depth] times packed b[depth, columns]. Columns form the
// outer loop, so that a panel of B stays in L1 while the panels of A stream through it from L2.
FT_INLINE void MultiplyBlock(const float* a, const float* b, int64_t depth, const GemmOutput& to) {
  for (int64_t j = 0; j < to.columns; j += kTileColumns) {
    for (int64_t i = 0; i < to.rows; i += kTileRows) {
      const GemmOutput tile{.c = to.c + i * to.ldc + j,
                            .ldc = to.ldc,
                            .rows = Least(kTileRows, to.rows - i),
                            .columns = Least(kTileColumns, to.columns - j),
                            .bias = to.bias == nullptr ? nullptr : to.bias + j,
                            .add = to.add};
      if (tile.rows == kTileRows && tile.columns == kTileColumns) {
        WholeTile(a + i * depth, b + j * depth, depth, tile);
      } else {
        PartTile(a + i * depth, b + j * depth, depth, tile);
      }
    }
  }
}

// Packs op(a)[row.., k..] as panels of kTileRows rows.
inline void PackA(const FtGemm& g, int64_t row, int64_t rows, int64_t k, int64_t depth, float* to) {
  const float* a = Floats(g.a);
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int64_t valid = Least(kTileRows, rows - i);
    if (g.trans_a != 0) {
      PackRows<kTileRows>(a + k * g.lda + row + i, g.lda, valid, depth, to + i * depth);
    } else {
      PackTransposed<kTileRows>(a + (row + i) * g.lda + k, g.lda, valid, depth, to + i * depth);
    }
  }
}

// Rounds packed values to TF32, the precision that products of that type read. Packing reads each
// value once a block, so rounding there costs far less than rounding in the inner loop.
inline void RoundPacked(int64_t floats, float* packed) {
  for (int64_t i = 0; i < floats; ++i) {
    packed[i] = Tf32OfFloat(packed[i]);
  }
}

// Applies the product's scale to packed A, which is the smaller block.
inline void ScalePackedA(float scale, int64_t rows, int64_t depth, float* packed) {
  const int64_t floats = RoundUp(rows, kTileRows) * depth;
  for (int64_t i = 0; i < floats; ++i) {
    packed[i] *= scale;
  }
}

// Packs op(b)[k.., column..] as panels of kTileColumns columns.
inline void PackB(const FtGemm& g, int64_t column, int64_t columns, int64_t k, int64_t depth,
                  float* to) {
  const float* b = Floats(g.b);
  for (int64_t j = 0; j < columns; j += kTileColumns) {
    const int64_t valid = Least(kTileColumns, columns - j);
    if (g.trans_b != 0) {
      PackTransposed<kTileColumns>(b + (column + j) * g.ldb + k, g.ldb, valid, depth,
                                   to + j * depth);
    } else {
      PackRows<kTileColumns>(b + k * g.ldb + column + j, g.ldb, valid, depth, to + j * depth);
    }
  }
}

// k == 0: C keeps its values or becomes 0, plus the bias.
inline void GemmWithoutProduct(const FtGemm& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    float* row = Floats(g.c) + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) {
      row[j] = (g.accumulate != 0 ? row[j] : 0.0F) + (g.bias != nullptr ? Floats(g.bias)[j] : 0.0F);
    }
  }
}

// Block size that cuts `size` into as few blocks as possible, each at most `most`. All blocks have
// nearly the same size; all but the last are multiples of `unit`.
FT_INLINE int64_t EvenBlock(int64_t size, int64_t most, int64_t unit) {
  const int64_t blocks = (size + most - 1) / most;
  return RoundUp((size + blocks - 1) / blocks, unit);
}

// Loops: columns, depth, rows. Each block of B is packed once; each block of A once per column
// block. Depth blocks add to C in order, and the bias joins the first one. Cost: 2 m n k FLOP. C is
// read and written once a depth block.
inline void Gemm(const FtGemm& g, float* scratch) {
  float* packed_a = scratch;
  float* packed_b = scratch + kGemmRows * kGemmDepth + kScratchGap;
  if (g.k == 0) {
    GemmWithoutProduct(g);
    return;
  }
  const int64_t row_block = EvenBlock(g.m, kGemmRows, kTileRows);
  const int64_t column_block = EvenBlock(g.n, kGemmColumns, kTileColumns);
  const int64_t depth_block = EvenBlock(g.k, kGemmDepth, 1);
  for (int64_t column = 0; column < g.n; column += column_block) {
    const int64_t columns = Least(column_block, g.n - column);
    for (int64_t k = 0; k < g.k; k += depth_block) {
      const int64_t depth = Least(depth_block, g.k - k);
      PackB(g, column, columns, k, depth, packed_b);
      if (g.compute == FT_TF32) {
        RoundPacked(RoundUp(columns, kTileColumns) * depth, packed_b);
      }
      for (int64_t row = 0; row < g.m; row += row_block) {
        const int64_t rows = Least(row_block, g.m - row);
        PackA(g, row, rows, k, depth, packed_a);
        if (g.compute == FT_TF32) {
          RoundPacked(RoundUp(rows, kTileRows) * depth, packed_a);
        }
        if (g.scale != 0.0F && g.scale != 1.0F) {
          ScalePackedA(g.scale, rows, depth, packed_a);
        }
        const bool first = k == 0;
        MultiplyBlock(packed_a, packed_b, depth,
                      {.c = Floats(g.c) + row * g.ldc + column,
                       .ldc = g.ldc,
                       .rows = rows,
                       .columns = columns,
                       .bias = first && g.bias != nullptr ? Floats(g.bias) + column : nullptr,
                       .add = !first || g.accumulate != 0});
      }
    }
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

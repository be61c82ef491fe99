// Kernels that work row by row: norms, bias gradients, embeddings.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Sums kVectors vectors of columns, from c on, over rows [begin, end), and adds them to `a` and,
// unless null, `b`. term(row, col, access, to_a, to_b) adds one row.
template <int kVectors, class Access, class Term>
FT_INLINE void SumRowsOfStrip(int64_t begin, int64_t end, int64_t c, const Access& access, float* a,
                              float* b, const Term& term) {
  Vector sum_a[kVectors] = {};
  Vector sum_b[kVectors] = {};
  for (int64_t row = begin; row < end; ++row) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      term(row, c + j * kLanes, access, sum_a[j], sum_b[j]);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < kVectors; ++j) {
    const int64_t at = c + j * kLanes;
    access.store(a + at, access.load(a + at) + sum_a[j]);
    if (b != nullptr) {
      access.store(b + at, access.load(b + at) + sum_b[j]);
    }
  }
}

// a[cols], b[cols] (+)= sums over rows. Blocks of 32 rows are summed in registers, for kStrip
// vectors of columns at a time, and then added. The rounding error thus grows with rows / 32 + 32
// instead of with rows.
template <int kStrip, class Term>
FT_INLINE void SumRows(int64_t rows, int64_t cols, bool accumulate, float* a, float* b,
                       const Term& term) {
  constexpr int64_t kRowBlock = 32;
  if (!accumulate) {
    memset(a, 0, static_cast<size_t>(cols) * sizeof(float));
    if (b != nullptr) {
      memset(b, 0, static_cast<size_t>(cols) * sizeof(float));
    }
  }
  for (int64_t begin = 0; begin < rows; begin += kRowBlock) {
    const int64_t end = Least(rows, begin + kRowBlock);
    int64_t c = 0;
    for (; c + kStrip * kLanes <= cols; c += kStrip * kLanes) {
      SumRowsOfStrip<kStrip>(begin, end, c, Whole{}, a, b, term);
    }
    for (; c + kLanes <= cols; c += kLanes) {
      SumRowsOfStrip<1>(begin, end, c, Whole{}, a, b, term);
    }
    if (c < cols) {
      SumRowsOfStrip<1>(begin, end, c, Part{cols - c}, a, b, term);
    }
  }
}

// A strip of 16 vectors reaches 65 GB/s from memory, one of 4 reaches 55 (AVX2: 47 and 33).
inline void BiasGrad(const FtBiasGrad& g) {
  SumRows<16>(
      g.rows, g.cols, g.accumulate != 0, Floats(g.grad), nullptr,
      [&](int64_t row, int64_t c, auto access, Vector& sum, Vector&)
          __attribute__((always_inline)) { sum += access.load(Floats(g.dy) + row * g.cols + c); });
}

// ---- embedding

// Position of row `row` of a sample; the row itself if there are no runs.
FT_INLINE int64_t PositionIn(const FtRun* runs, int64_t count, int64_t row) {
  for (int64_t r = 0; r < count; ++r) {
    if (row < runs[r].row + runs[r].rows) {
      return runs[r].position + row - runs[r].row;
    }
  }
  return row;
}

// Position of row `row`, counted through all samples: in its sample, or in its document.
template <class Arguments>
FT_INLINE int64_t PositionOf(const Arguments& g, int64_t row) {
  const int64_t start = g.document_starts != nullptr ? g.document_starts[row] : 0;
  return PositionIn(g.runs, g.run_count, row % g.sequence) - start;
}

// An id that this rank does not hold gives a row of zeros, so that a sum over ranks is the whole
// table's row. Rows without positions and scale are plain copies.
inline void EmbeddingForward(const FtEmbeddingForward& g) {
  const float scale = g.scale == 0.0F ? 1.0F : g.scale;
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t id = g.ids[row] - g.first_id;
    float* to = Floats(g.out) + row * g.cols;
    if (id < 0 || id >= g.vocab) {
      memset(to, 0, static_cast<size_t>(g.cols) * sizeof(float));
      continue;
    }
    const float* from = Floats(g.table) + id * g.cols;
    if (g.positions == nullptr && scale == 1.0F) {
      memcpy(to, from, static_cast<size_t>(g.cols) * sizeof(float));
      continue;
    }
    if (g.positions == nullptr) {
      ForEachVector(
          g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
            access.store(to + c, access.load(from + c) * scale);
          });
      continue;
    }
    const float* position = Floats(g.positions) + PositionOf(g, g.first_row + row) * g.cols;
    ForEachVector(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(to + c, access.load(from + c) * scale + access.load(position + c));
        });
  }
}

// Rows are added in their order, so that the sum of equal ids is deterministic.
inline void EmbeddingBackward(const FtEmbeddingBackward& g) {
  const float scale = g.scale == 0.0F ? 1.0F : g.scale;
  float* table = Floats(g.table_grad);
  float* positions = Floats(g.positions_grad);
  if (g.accumulate_table == 0) {
    memset(table, 0, static_cast<size_t>(g.vocab * g.cols) * sizeof(float));
  }
  if (positions != nullptr && g.accumulate_positions == 0) {
    memset(positions, 0, static_cast<size_t>(g.sequence * g.cols) * sizeof(float));
  }
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* dy = Floats(g.dy) + row * g.cols;
    const int64_t id = g.ids[row] - g.first_id;
    if (id >= 0 && id < g.vocab) {
      float* to = table + id * g.cols;
      ForEachVector(
          g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
            access.store(to + c, access.load(to + c) + access.load(dy + c) * scale);
          });
    }
    if (positions != nullptr) {
      float* position = positions + PositionOf(g, row) * g.cols;
      ForEachVector(
          g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
            access.store(position + c, access.load(position + c) + access.load(dy + c));
          });
    }
  }
}

// ---- norms

// Two passes over a row for RMSNorm, three for LayerNorm. A row fits the cache, so memory is read
// once.
template <bool kRms>
FT_INLINE void NormForwardRows(const FtNormForward& g) {
  const auto cols = static_cast<float>(g.cols);
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* x = Floats(g.x) + row * g.cols;
    float* y = Floats(g.y) + row * g.cols;
    float mean = 0.0F;
    if constexpr (!kRms) {
      mean = SumOver(
                 g.cols, [&](int64_t c, auto access)
                             __attribute__((always_inline)) { return access.load(x + c); }) /
             cols;
      g.mean[row] = mean;
    }
    // The second pass over x sums squared deviations, so the variance cannot become negative.
    const float variance = SumOver(
                               g.cols,
                               [&](int64_t c, auto access) __attribute__((always_inline)) {
                                 const Vector deviation = access.keep(access.load(x + c) - mean);
                                 return deviation * deviation;
                               }) /
                           cols;
    const float rstd = 1.0F / __builtin_sqrtf(variance + g.epsilon);
    g.rstd[row] = rstd;
    ForEachVector(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          Vector v = (access.load(x + c) - mean) * rstd * access.load(Floats(g.weight) + c);
          if constexpr (!kRms) {
            v = g.bias == nullptr ? v : v + access.load(Floats(g.bias) + c);
          }
          access.store(y + c, v);
        });
  }
}

inline void NormForward(const FtNormForward& g) {
  if (g.rms != 0) {
    NormForwardRows<true>(g);
  } else {
    NormForwardRows<false>(g);
  }
}

// dx = rstd * (a - mean(a) - xhat * mean(a * xhat)) + residual, with a = dy * weight. RMSNorm has
// no mean(a).
template <bool kRms>
FT_INLINE void NormBackwardInputRows(const FtNormBackwardInput& g) {
  const auto cols = static_cast<float>(g.cols);
  const float* weight = Floats(g.weight);
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t at = row * g.cols;
    const float* x = Floats(g.x) + at;
    const float* dy = Floats(g.dy) + at;
    const float mean = kRms ? 0.0F : g.mean[row];
    const float rstd = g.rstd[row];
    float sum_a = 0.0F;
    float sum_ax = 0.0F;
    SumsOver(
        g.cols, sum_a, sum_ax,
        [&](int64_t c, auto access, Vector& to_a, Vector& to_ax) __attribute__((always_inline)) {
          const Vector a = access.load(dy + c) * access.load(weight + c);
          to_a += a;
          to_ax += a * (access.load(x + c) - mean);
        });
    const float mean_a = kRms ? 0.0F : sum_a / cols;
    const float slope = sum_ax / cols * rstd * rstd;
    const float* residual = g.residual == nullptr ? nullptr : Floats(g.residual) + at;
    float* dx = Floats(g.dx) + at;
    ForEachVector(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector a = access.load(dy + c) * access.load(weight + c);
          Vector v = (a - mean_a - (access.load(x + c) - mean) * slope) * rstd;
          v = residual == nullptr ? v : v + access.load(residual + c);
          access.store(dx + c, v);
        });
  }
}

inline void NormBackwardInput(const FtNormBackwardInput& g) {
  if (g.rms != 0) {
    NormBackwardInputRows<true>(g);
  } else {
    NormBackwardInputRows<false>(g);
  }
}

// Weight and bias gradients share one pass over dy; each is summed in the order of SumRows.
inline void NormBackwardWeight(const FtNormBackwardWeight& g) {
  const float* x = Floats(g.x);
  const float* dy = Floats(g.dy);
  SumRows<8>(
      g.rows, g.cols, g.accumulate != 0, Floats(g.weight_grad), Floats(g.bias_grad),
      [&](int64_t row, int64_t c, auto access, Vector& weight, Vector& bias)
          __attribute__((always_inline)) {
            const float mean = g.rms != 0 ? 0.0F : g.mean[row];
            const Vector d = access.load(dy + row * g.cols + c);
            weight += d * ((access.load(x + row * g.cols + c) - mean) * g.rstd[row]);
            bias += d;
          });
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

// RMSNorm of each query and key head, in rows that hold both.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Normalizes in place. The backward needs the input, so a copy of it is kept. Key heads follow the
// query heads of a row.
inline void HeadNormForward(const FtHeadNormForward& g) {
  const int64_t dim = g.head_dim, all = int64_t{g.heads} + g.kv_heads;
  for (int64_t item = 0; item < g.rows * all; ++item) {
    const int64_t row = item / all, head = item % all;
    float* x = Floats(g.qkv) + row * g.row_stride + head * dim;
    float* kept = Floats(g.kept) + item * dim;
    const float* weight = Floats(head < g.heads ? g.q_weight : g.k_weight);
    const float square = SumOver(
        dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector v = access.load(x + c);
          return v * v;
        });
    const float rstd = 1.0F / __builtin_sqrtf(square / static_cast<float>(dim) + g.epsilon);
    g.rstd[item] = rstd;
    ForEachVector(
        dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector v = access.load(x + c);
          access.store(kept + c, v);
          access.store(x + c, v * rstd * access.load(weight + c));
        });
  }
}

// dx = rstd (a - xhat mean(a xhat)) with a = dy * weight and xhat = x rstd.
inline void HeadNormBackwardInput(const FtHeadNormBackwardInput& g) {
  const int64_t dim = g.head_dim, all = int64_t{g.heads} + g.kv_heads;
  for (int64_t item = 0; item < g.rows * all; ++item) {
    const int64_t row = item / all, head = item % all;
    float* d = Floats(g.dqkv) + row * g.row_stride + head * dim;
    const float* x = Floats(g.kept) + item * dim;
    const float* weight = Floats(head < g.heads ? g.q_weight : g.k_weight);
    if (g.kept_grad != nullptr) {
      memcpy(Floats(g.kept_grad) + item * dim, d, static_cast<size_t>(dim) * sizeof(float));
    }
    const float rstd = g.rstd[item];
    const float sum = SumOver(
        dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          return access.load(d + c) * access.load(weight + c) * access.load(x + c);
        });
    const float slope = sum / static_cast<float>(dim) * rstd * rstd;
    ForEachVector(
        dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector a = access.load(d + c) * access.load(weight + c);
          access.store(d + c, (a - access.load(x + c) * slope) * rstd);
        });
  }
}

// Weight gradient of heads [first, first + count) of each row, added to or stored in `grad`.
FT_INLINE void HeadNormWeightOf(const FtHeadNormBackwardWeight& g, int64_t first, int64_t count,
                                void* grad) {
  const int64_t dim = g.head_dim, all = int64_t{g.heads} + g.kv_heads;
  SumRows<4>(
      g.rows * count, dim, g.accumulate != 0, Floats(grad), nullptr,
      [&](int64_t i, int64_t c, auto access, Vector& sum, Vector&) __attribute__((always_inline)) {
        const int64_t item = i / count * all + first + i % count;
        const Vector d = access.load(Floats(g.kept_grad) + item * dim + c);
        sum += d * (access.load(Floats(g.kept) + item * dim + c) * g.rstd[item]);
      });
}

// Query heads and key heads have separate weights, hence two sums.
inline void HeadNormBackwardWeight(const FtHeadNormBackwardWeight& g) {
  HeadNormWeightOf(g, 0, g.heads, g.q_weight_grad);
  HeadNormWeightOf(g, g.heads, g.kv_heads, g.k_weight_grad);
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

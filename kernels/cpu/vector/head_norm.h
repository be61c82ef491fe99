// RMSNorm of query and key heads, in rows that hold both.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// The norms of a row: those of queries, then those of keys. Each head has its own, or all heads of
// a kind share one.
struct HeadNorms {
  int64_t queries, keys;           // norms in a row
  int64_t query_width, key_width;  // numbers of one

  template <class Arguments>
  FT_INLINE explicit HeadNorms(const Arguments& g)
      : queries(g.whole != 0 ? 1 : g.heads),
        keys(g.whole != 0 ? 1 : g.kv_heads),
        query_width(g.whole != 0 ? int64_t{g.heads} * g.head_dim : g.head_dim),
        key_width(g.whole != 0 ? int64_t{g.kv_heads} * g.head_dim : g.head_dim) {}

  FT_INLINE int64_t InRow() const { return queries + keys; }
  FT_INLINE int64_t RowWidth() const { return queries * query_width + keys * key_width; }
  FT_INLINE int64_t Width(int64_t norm) const { return norm < queries ? query_width : key_width; }
  // Offset in the row.
  FT_INLINE int64_t First(int64_t norm) const {
    return norm < queries ? norm * query_width
                          : queries * query_width + (norm - queries) * key_width;
  }
};

// Weights from `c` on; 1 without weights.
template <class Access>
FT_INLINE Vector WeightAt(const float* weight, int64_t c, const Access& access) {
  return weight != nullptr ? access.load(weight + c) : Set(1.0F);
}

// Normalizes in place. The backward needs the input, so a copy of it is kept.
inline void HeadNormForward(const FtHeadNormForward& g) {
  const HeadNorms norms(g);
  for (int64_t item = 0; item < g.rows * norms.InRow(); ++item) {
    const int64_t row = item / norms.InRow(), norm = item % norms.InRow();
    const int64_t first = norms.First(norm), width = norms.Width(norm);
    float* x = Floats(g.qkv) + row * g.row_stride + first;
    float* kept = Floats(g.kept) + row * norms.RowWidth() + first;
    const float* weight = Floats(norm < norms.queries ? g.q_weight : g.k_weight);
    const float square = SumOver(
        width, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector v = access.load(x + c);
          return v * v;
        });
    const float rstd = 1.0F / __builtin_sqrtf(square / static_cast<float>(width) + g.epsilon);
    g.rstd[item] = rstd;
    ForEachVector(
        width, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector v = access.load(x + c);
          access.store(kept + c, v);
          access.store(x + c, v * rstd * WeightAt(weight, c, access));
        });
  }
}

// dx = rstd (a - xhat mean(a xhat)) with a = dy * weight and xhat = x rstd.
inline void HeadNormBackwardInput(const FtHeadNormBackwardInput& g) {
  const HeadNorms norms(g);
  for (int64_t item = 0; item < g.rows * norms.InRow(); ++item) {
    const int64_t row = item / norms.InRow(), norm = item % norms.InRow();
    const int64_t first = norms.First(norm), width = norms.Width(norm);
    const int64_t dense = row * norms.RowWidth() + first;
    float* d = Floats(g.dqkv) + row * g.row_stride + first;
    const float* x = Floats(g.kept) + dense;
    const float* weight = Floats(norm < norms.queries ? g.q_weight : g.k_weight);
    if (g.kept_grad != nullptr) {
      memcpy(Floats(g.kept_grad) + dense, d, static_cast<size_t>(width) * sizeof(float));
    }
    const float rstd = g.rstd[item];
    const float sum = SumOver(
        width, [&](int64_t c, auto access) __attribute__((always_inline)) {
          return access.load(d + c) * WeightAt(weight, c, access) * access.load(x + c);
        });
    const float slope = sum / static_cast<float>(width) * rstd * rstd;
    ForEachVector(
        width, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector a = access.load(d + c) * WeightAt(weight, c, access);
          access.store(d + c, (a - access.load(x + c) * slope) * rstd);
        });
  }
}

// Weight gradient of norms [first, first + count) of each row, added to or stored in `grad`.
FT_INLINE void HeadNormWeightOf(const FtHeadNormBackwardWeight& g, int64_t first, int64_t count,
                                void* grad) {
  const HeadNorms norms(g);
  const int64_t width = norms.Width(first);
  SumRows<4>(
      g.rows * count, width, g.accumulate != 0, Floats(grad), nullptr,
      [&](int64_t i, int64_t c, auto access, Vector& sum, Vector&) __attribute__((always_inline)) {
        const int64_t row = i / count, norm = first + i % count;
        const int64_t dense = row * norms.RowWidth() + norms.First(norm) + c;
        const Vector d = access.load(Floats(g.kept_grad) + dense);
        sum += d * (access.load(Floats(g.kept) + dense) * g.rstd[row * norms.InRow() + norm]);
      });
}

// Queries and keys have separate weights, hence two sums.
inline void HeadNormBackwardWeight(const FtHeadNormBackwardWeight& g) {
  const HeadNorms norms(g);
  HeadNormWeightOf(g, 0, norms.queries, g.q_weight_grad);
  HeadNormWeightOf(g, norms.queries, norms.keys, g.k_weight_grad);
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

// Kernels that read and write each element once: activations, additions, norms of gradients. Leaves
// out updates: update.h.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// tanh GELU is 0.5 x (1 + tanh u) = x / (1 + e^-2u) with u = sqrt(2/pi) (x + 0.044715 x^3)
// (Hendrycks and Gimpel 2016). The second form has no cancellation where x is negative. The factors
// hold log2(e), for 2^x in place of e^x.
constexpr float kGeluLinear = 2.302208198F;  // 2 sqrt(2 / pi) log2(e)
constexpr float kGeluCubic = 0.1029432397F;  // the same times 0.044715

// 1 + e^-2u.
FT_INLINE Vector GeluDivisor(Vector x, Vector square) {
  return 1.0F + Exp2(-x * (square * kGeluCubic + kGeluLinear));
}

FT_INLINE Vector Gelu(Vector x) { return x / GeluDivisor(x, x * x); }

// d/dx of x * s(w), w = 2u: s + x s (1 - s) w'. Beyond |x| = 20 s (1 - s) is 0; the bound keeps w'
// finite there.
FT_INLINE Vector GeluSlope(Vector x) {
  const Vector bounded = Min(Set(20.0F), Max(Set(-20.0F), x));
  const Vector square = bounded * bounded;
  const Vector s = 1.0F / GeluDivisor(bounded, square);
  const Vector slope = square * (3.0F * kLn2 * kGeluCubic) + kLn2 * kGeluLinear;
  return s + bounded * s * (1.0F - s) * slope;
}

inline void GeluForward(const FtGelu& g) {
  const float* x = Floats(g.x);
  float* out = Floats(g.out);
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        access.store(out + i, Gelu(access.load(x + i)));
      });
}

inline void GeluBackward(const FtGelu& g) {
  const float* x = Floats(g.x);
  const float* dy = Floats(g.dy);
  float* out = Floats(g.out);
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        access.store(out + i, access.load(dy + i) * GeluSlope(access.load(x + i)));
      });
}

// 1 + e^-x.
FT_INLINE Vector SiluDivisor(Vector x) { return 1.0F + Exp2(x * -kLog2E); }

// silu(gate) * up = gate / (1 + e^-gate) * up.
// Prefetching gains two fifths from memory.
inline void SwigluForward(const FtSwiglu& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* gate = Floats(g.x) + row * 2 * g.cols;
    const float* up = gate + g.cols;
    float* out = Floats(g.out) + row * g.cols;
    ForEachVector(
        g.cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
          PrefetchAhead(gate + i);
          PrefetchAhead(up + i);
          const Vector x = access.load(gate + i);
          access.store(out + i, x * access.load(up + i) / SiluDivisor(x));
        });
  }
}

// d silu = s + x s (1 - s), written s (1 + x (1 - s)).
inline void SwigluBackward(const FtSwiglu& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* gate = Floats(g.x) + row * 2 * g.cols;
    const float* up = gate + g.cols;
    const float* dy = Floats(g.dy) + row * g.cols;
    float* dgate = Floats(g.out) + row * 2 * g.cols;
    float* dup = dgate + g.cols;
    ForEachVector(
        g.cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
          const Vector x = access.load(gate + i);
          const Vector s = 1.0F / SiluDivisor(x);
          const Vector d = access.load(dy + i);
          const Vector upward = access.load(up + i);
          access.store(dup + i, d * x * s);
          // x (1 - s) is 0 * inf where x is infinite: there the slope is s.
          const Vector bounded = Min(Set(100.0F), Max(Set(-100.0F), x));
          access.store(dgate + i, d * upward * (s * (1.0F + bounded * (1.0F - s))));
        });
  }
}

inline void Add(const FtAdd& g) {
  const float* bias = Floats(g.bias);
  const int64_t rows = bias == nullptr ? 1 : g.rows;
  const int64_t cols = bias == nullptr ? g.rows * g.cols : g.cols;
  for (int64_t row = 0; row < rows; ++row) {
    const float* a = Floats(g.a) + row * cols;
    const float* b = Floats(g.b) + row * cols;
    float* out = Floats(g.out) + row * cols;
    if (bias == nullptr) {
      ForEachVector(
          cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
            access.store(out + i, access.load(a + i) + access.load(b + i));
          });
    } else {
      ForEachVector(
          cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
            access.store(out + i, access.load(a + i) + access.load(b + i) + access.load(bias + i));
          });
    }
  }
}

// Prefetching gains a seventh from memory.
inline void SquaredNorm(const FtSquaredNorm& g) {
  const float* x = Floats(g.x);
  DoubleVector low[2] = {};
  DoubleVector high[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= g.elements; i += 2 * kLanes) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      PrefetchAhead(x + i + j * kLanes);
      const Vector v = Load(x + i + j * kLanes);
      low[j] += LowDoubles(v) * LowDoubles(v);
      high[j] += HighDoubles(v) * HighDoubles(v);
    }
  }
  double total = SumLanes((low[0] + high[0]) + (low[1] + high[1]));
  for (; i < g.elements; ++i) {
    total += double{x[i]} * double{x[i]};
  }
  g.out[0] = static_cast<float>(g.accumulate != 0 ? double{g.out[0]} + total : total);
}

inline void SumRanks(const FtSumRanks& g) {
  float* out = Floats(g.out);
  if (g.maximum != 0) {
    ForEachVector(
        g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
          Vector most = access.load(Floats(g.sources[0]) + i);
          for (int32_t rank = 1; rank < g.count; ++rank) {
            most = Max(most, access.load(Floats(g.sources[rank]) + i));
          }
          access.store(out + i, most);
        });
    return;
  }
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        Vector sum = access.load(Floats(g.sources[0]) + i);
        for (int32_t rank = 1; rank < g.count; ++rank) {
          sum += access.load(Floats(g.sources[rank]) + i);
        }
        access.store(out + i, sum);
      });
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

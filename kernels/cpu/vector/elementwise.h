// Kernels that read and write each element once: activations, additions, gradient norms. Leaves out
// updates: update.h.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// tanh GELU is 0.5 x (1 + tanh u) = x / (1 + e^-2u) with u = sqrt(2/pi) (x + 0.044715 x^3)
// (Hendrycks and Gimpel 2016). The second form does not cancel for negative x. The factors include
// log2(e), so that 2^x replaces e^x.
constexpr float kGeluLinear = 2.302208198F;  // 2 sqrt(2 / pi) log2(e)
constexpr float kGeluCubic = 0.1029432397F;  // the same times 0.044715

// 1 + e^-2u.
FT_INLINE Vector GeluDivisor(Vector x, Vector square) {
  return 1.0F + Exp2(-x * (square * kGeluCubic + kGeluLinear));
}

FT_INLINE Vector Gelu(Vector x) { return x / GeluDivisor(x, x * x); }

// Derivative of x * s(w), w = 2u: s + x s (1 - s) w'. Beyond |x| = 20 the term s (1 - s) is 0; the
// bound keeps w' finite there.
FT_INLINE Vector GeluSlope(Vector x) {
  const Vector bounded = Min(Set(20.0F), Max(Set(-20.0F), x));
  const Vector square = bounded * bounded;
  const Vector s = 1.0F / GeluDivisor(bounded, square);
  const Vector slope = square * (3.0F * kLn2 * kGeluCubic) + kLn2 * kGeluLinear;
  return s + bounded * s * (1.0F - s) * slope;
}

// Normal distribution function at x, for erf GELU: 0.5 erfc(-x / sqrt 2). Uses erfc(z) = t (a1 + t
// (a2 + ...)) e^-z^2, t = 1 / (1 + p z), for z >= 0, and erfc(-z) = 2 - erfc(z). The error is at
// most 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26). Sets `bell` to e^(-x^2 / 2).
FT_INLINE Vector NormalBelow(Vector x, Vector& bell) {
  constexpr float kHalfRoot = 0.7071067812F;
  const Vector size = Max(-x, x);
  const Vector t = 1.0F / (1.0F + (0.3275911F * kHalfRoot) * size);
  bell = Exp2(size * size * (-0.5F * kLog2E));
  const Vector series =
      t * (0.254829592F +
           t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  const Vector tail = 0.5F * series * bell;
  return x < 0.0F ? tail : 1.0F - tail;
}

struct TanhGelu {
  static FT_INLINE Vector Value(Vector x) { return Gelu(x); }
  static FT_INLINE Vector Slope(Vector x) { return GeluSlope(x); }
};
// x * Phi(x) and its derivative Phi(x) + x phi(x). x is bounded where a term would be infinity
// times 0.
struct ErfGelu {
  static FT_INLINE Vector Value(Vector x) {
    Vector bell;
    const Vector below = NormalBelow(x, bell);
    return x < -20.0F ? Set(0.0F) : x * below;
  }
  static FT_INLINE Vector Slope(Vector x) {
    constexpr float kInverseRoot = 0.3989422804F;  // 1 / sqrt(2 pi)
    const Vector bounded = Min(Set(20.0F), Max(Set(-20.0F), x));
    Vector bell;
    const Vector below = NormalBelow(bounded, bell);
    return below + bounded * bell * kInverseRoot;
  }
};
struct Relu {
  static FT_INLINE Vector Value(Vector x) { return Max(Set(0.0F), x); }
  static FT_INLINE Vector Slope(Vector x) {
    return x > 0.0F ? Set(1.0F) : (x == x ? Set(0.0F) : x);
  }
};
struct SquaredRelu {
  static FT_INLINE Vector Value(Vector x) { return Relu::Value(x) * Relu::Value(x); }
  static FT_INLINE Vector Slope(Vector x) { return 2.0F * Relu::Value(x); }
};

// One pass: reads x, writes out. The function is a template argument, so that the loop has no
// branch.
template <class Function>
FT_INLINE void ActivationForward(const FtGelu& g) {
  const float* x = Floats(g.x);
  float* out = Floats(g.out);
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        access.store(out + i, Function::Value(access.load(x + i)));
      });
}

template <class Function>
FT_INLINE void ActivationBackward(const FtGelu& g) {
  const float* x = Floats(g.x);
  const float* dy = Floats(g.dy);
  float* out = Floats(g.out);
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        access.store(out + i, access.load(dy + i) * Function::Slope(access.load(x + i)));
      });
}

inline void GeluForward(const FtGelu& g) {
  if (g.activation == FT_GELU_ERF) return ActivationForward<ErfGelu>(g);
  if (g.activation == FT_RELU) return ActivationForward<Relu>(g);
  if (g.activation == FT_SQUARED_RELU) return ActivationForward<SquaredRelu>(g);
  ActivationForward<TanhGelu>(g);
}

inline void GeluBackward(const FtGelu& g) {
  if (g.activation == FT_GELU_ERF) return ActivationBackward<ErfGelu>(g);
  if (g.activation == FT_RELU) return ActivationBackward<Relu>(g);
  if (g.activation == FT_SQUARED_RELU) return ActivationBackward<SquaredRelu>(g);
  ActivationBackward<TanhGelu>(g);
}

// 1 + e^-x.
FT_INLINE Vector SiluDivisor(Vector x) { return 1.0F + Exp2(x * -kLog2E); }

// silu(x) = x / (1 + e^-x). Its derivative s + x s (1 - s) is written s (1 + x (1 - s)). For
// infinite x the product x (1 - s) would be 0 * inf, so x is bounded there.
struct Silu {
  static FT_INLINE Vector Gated(Vector x, Vector up) { return x * up / SiluDivisor(x); }
  static FT_INLINE void Slope(Vector x, Vector& value, Vector& slope) {
    const Vector s = 1.0F / SiluDivisor(x);
    const Vector bounded = Min(Set(100.0F), Max(Set(-100.0F), x));
    value = x * s;
    slope = s * (1.0F + bounded * (1.0F - s));
  }
};
struct TanhGeluGate {
  static FT_INLINE Vector Gated(Vector x, Vector up) { return Gelu(x) * up; }
  static FT_INLINE void Slope(Vector x, Vector& value, Vector& slope) {
    value = Gelu(x);
    slope = GeluSlope(x);
  }
};

// FT_GATE_CLAMPED: up + 1 replaces up. Where a clamp is active, its input gets no gradient.
constexpr float kClampLimit = 7.0F;
constexpr float kClampSlope = 1.702F;
// One pass over each row, which holds the gate first and then `up`.
FT_INLINE void ClampedForward(const FtSwiglu& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* gate = Floats(g.x) + row * 2 * g.cols;
    float* out = Floats(g.out) + row * g.cols;
    ForEachVector(
        g.cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
          const Vector x = Min(Set(kClampLimit), access.load(gate + i));
          const Vector up =
              Min(Set(kClampLimit), Max(Set(-kClampLimit), access.load(gate + g.cols + i)));
          access.store(out + i, x / (1.0F + Exp2(x * (-kLog2E * kClampSlope))) * (up + 1.0F));
        });
  }
}

// The slope follows Silu::Slope with the factor kClampSlope. A clamped input is a constant, so its
// gradient is 0.
FT_INLINE void ClampedBackward(const FtSwiglu& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* gate = Floats(g.x) + row * 2 * g.cols;
    const float* dy = Floats(g.dy) + row * g.cols;
    float* dx = Floats(g.out) + row * 2 * g.cols;
    ForEachVector(
        g.cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
          const Vector of_gate = access.load(gate + i), of_up = access.load(gate + g.cols + i);
          const Vector x = Min(Set(kClampLimit), of_gate);
          const Vector up = Min(Set(kClampLimit), Max(Set(-kClampLimit), of_up));
          const Vector s = 1.0F / (1.0F + Exp2(x * (-kLog2E * kClampSlope)));
          const Vector bounded = Max(Set(-100.0F), x);
          const Vector slope = s * (1.0F + kClampSlope * bounded * (1.0F - s));
          const Vector d = access.load(dy + i), none = Set(0.0F);
          const Vector d_gate = d * (up + 1.0F) * slope, d_up = d * x * s;
          access.store(dx + i, of_gate > kClampLimit ? none : d_gate);
          access.store(dx + g.cols + i, of_up > kClampLimit    ? none
                                        : of_up < -kClampLimit ? none
                                                               : d_up);
        });
  }
}

// out = f(gate) * up. Prefetching makes it 40 % faster from memory.
template <class Gate>
FT_INLINE void GatedForward(const FtSwiglu& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* gate = Floats(g.x) + row * 2 * g.cols;
    const float* up = gate + g.cols;
    float* out = Floats(g.out) + row * g.cols;
    ForEachVector(
        g.cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
          PrefetchAhead(gate + i);
          PrefetchAhead(up + i);
          access.store(out + i, Gate::Gated(access.load(gate + i), access.load(up + i)));
        });
  }
}

// d up = dy * f(gate) and d gate = dy * up * f'(gate), both in one pass over x.
template <class Gate>
FT_INLINE void GatedBackward(const FtSwiglu& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* gate = Floats(g.x) + row * 2 * g.cols;
    const float* up = gate + g.cols;
    const float* dy = Floats(g.dy) + row * g.cols;
    float* dgate = Floats(g.out) + row * 2 * g.cols;
    float* dup = dgate + g.cols;
    ForEachVector(
        g.cols, [&](int64_t i, auto access) __attribute__((always_inline)) {
          Vector value, slope;
          Gate::Slope(access.load(gate + i), value, slope);
          const Vector d = access.load(dy + i);
          const Vector upward = access.load(up + i);
          access.store(dup + i, d * value);
          access.store(dgate + i, d * upward * slope);
        });
  }
}

inline void SwigluForward(const FtSwiglu& g) {
  if (g.gate == FT_GATE_GELU_TANH) return GatedForward<TanhGeluGate>(g);
  if (g.gate == FT_GATE_CLAMPED) return ClampedForward(g);
  GatedForward<Silu>(g);
}

inline void SwigluBackward(const FtSwiglu& g) {
  if (g.gate == FT_GATE_GELU_TANH) return GatedBackward<TanhGeluGate>(g);
  if (g.gate == FT_GATE_CLAMPED) return ClampedBackward(g);
  GatedBackward<Silu>(g);
}

// tanh u = 1 - 2 / (1 + e^2u); beyond the range of 2^x it is 1 or -1. Near 0 the difference is off
// by half a unit in the last place of 1, which `cap` scales.
inline void Softcap(const FtSoftcap& g) {
  float* x = Floats(g.x);
  const float slope = 2.0F * kLog2E / g.softcap;
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector tanh = 1.0F - 2.0F / (1.0F + Exp2(access.load(x + i) * slope));
        access.store(x + i, g.softcap * tanh);
      });
}

// Without a bias the tensor is one long row, which leaves at most one part vector.
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

// Squares are exact in fp64 and summed there. Prefetching makes it 14 % faster from memory.
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

// Adds the ranks in index order for every element, so that all ranks get the same bits.
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

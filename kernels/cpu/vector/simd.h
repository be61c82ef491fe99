// Vectors as wide as the registers of one instruction set, with the operations that kernels need.
// These are loads and stores of whole and part vectors, sums in a fixed order, exponentials and a
// transposition.
//
// kernels/cpu/vector_<set>.cc compiles everything in kernels/cpu/vector once per instruction set,
// in its own namespace. These headers include no inline functions of the standard library. The
// linker keeps only one copy of such a function, perhaps one that this processor cannot run.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#ifndef FT_VECTOR_NAMESPACE
#define FT_VECTOR_NAMESPACE vector_baseline
#define FT_VECTOR_BYTES 16
#endif

#define FT_INLINE inline __attribute__((always_inline))

namespace foretrain::FT_VECTOR_NAMESPACE {

constexpr int64_t kLanes = FT_VECTOR_BYTES / 4;

typedef float Vector __attribute__((vector_size(FT_VECTOR_BYTES)));
typedef float LooseVector __attribute__((vector_size(FT_VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t IntVector __attribute__((vector_size(FT_VECTOR_BYTES)));
typedef uint32_t BitVector __attribute__((vector_size(FT_VECTOR_BYTES)));
// Half the lanes in fp32: a DoubleVector holds as many in fp64.
typedef float HalfVector __attribute__((vector_size(FT_VECTOR_BYTES / 2)));
typedef double DoubleVector __attribute__((vector_size(FT_VECTOR_BYTES)));

// Index lists for compile-time loops, without <utility>.
template <int... I>
struct Indices {};
#if defined(__clang__)
template <class T, T... I>
using IndicesOf = Indices<static_cast<int>(I)...>;
template <int N>
using MakeIndices = __make_integer_seq<IndicesOf, int, N>;
#else
template <int N>
using MakeIndices = Indices<__integer_pack(N)...>;
#endif

FT_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
FT_INLINE int64_t Greatest(int64_t a, int64_t b) { return a < b ? b : a; }
FT_INLINE int64_t Clamp(int64_t x, int64_t low, int64_t high) {
  return Least(Greatest(x, low), high);
}
FT_INLINE int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

FT_INLINE const float* Floats(const void* pointer) { return static_cast<const float*>(pointer); }
FT_INLINE float* Floats(void* pointer) { return static_cast<float*>(pointer); }

// x in every lane. Uses subtraction, because adding 0 would lose the sign of -0.
FT_INLINE Vector Set(float x) { return x - Vector{}; }

FT_INLINE Vector Load(const float* from) { return *reinterpret_cast<const LooseVector*>(from); }
FT_INLINE void Store(float* to, Vector v) { *reinterpret_cast<LooseVector*>(to) = v; }

// Prefetches the line 4 KiB ahead. It helps loops that read memory once in an order that the
// hardware prefetcher does not detect. Callers note the gain.
FT_INLINE void PrefetchAhead(const float* at) { __builtin_prefetch(at + 1024); }

FT_INLINE Vector AsFloats(BitVector bits) { return Vector(bits); }
FT_INLINE BitVector AsBits(Vector v) { return BitVector(v); }

template <int... I>
FT_INLINE IntVector LaneNumbers(Indices<I...>) {
  return IntVector{I...};
}
// Lanes hold 0, 1, 2, ...
FT_INLINE IntVector LaneNumbers() { return LaneNumbers(MakeIndices<kLanes>{}); }

// Loads the first n lanes and sets the others to 0; 0 <= n <= kLanes.
FT_INLINE Vector LoadPart(const float* from, int64_t n) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1U << n) - 1U);
  return Vector(_mm512_maskz_loadu_ps(mask, from));
#elif defined(__AVX2__)
  const IntVector mask = LaneNumbers() < static_cast<int32_t>(n);
  return Vector(_mm256_maskload_ps(from, __m256i(mask)));
#else
  Vector v = {};
  memcpy(&v, from, static_cast<size_t>(n) * sizeof(float));
  return v;
#endif
}

// Writes the first n lanes; 0 <= n <= kLanes.
FT_INLINE void StorePart(float* to, Vector v, int64_t n) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1U << n) - 1U);
  _mm512_mask_storeu_ps(to, mask, __m512(v));
#elif defined(__AVX2__)
  const IntVector mask = LaneNumbers() < static_cast<int32_t>(n);
  _mm256_maskstore_ps(to, __m256i(mask), __m256(v));
#else
  memcpy(to, &v, static_cast<size_t>(n) * sizeof(float));
#endif
}

// Access to a whole vector and to a part of one, with the same interface.
struct Whole {
  FT_INLINE Vector load(const float* from) const { return Load(from); }
  FT_INLINE void store(float* to, Vector v) const { Store(to, v); }
  FT_INLINE Vector keep(Vector v) const { return v; }
};
struct Part {
  int64_t lanes;
  FT_INLINE Vector load(const float* from) const { return LoadPart(from, lanes); }
  FT_INLINE void store(float* to, Vector v) const { StorePart(to, v, lanes); }
  // v with 0 in the lanes beyond the part.
  FT_INLINE Vector keep(Vector v) const {
    return LaneNumbers() < static_cast<int32_t>(lanes) ? v : Vector{};
  }
};

// Calls body(i, access) for i = 0, kLanes, 2 kLanes, ... below n.
template <class Body>
FT_INLINE void ForEachVector(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    body(i, Whole{});
  }
  if (i < n) {
    body(i, Part{n - i});
  }
}

// bound > x ? bound : x in each lane: the maximum, and NaN if x is NaN.
FT_INLINE Vector Max(Vector bound, Vector x) {
#if defined(__AVX512F__)
  return Vector(_mm512_maskz_max_ps(0xffff, __m512(bound), __m512(x)));
#elif defined(__AVX2__)
  return Vector(_mm256_max_ps(__m256(bound), __m256(x)));
#elif defined(__SSE2__)
  return Vector(_mm_max_ps(__m128(bound), __m128(x)));
#else
  return bound > x ? bound : x;
#endif
}

// bound < x ? bound : x in each lane: the minimum, and NaN if x is NaN.
FT_INLINE Vector Min(Vector bound, Vector x) {
#if defined(__AVX512F__)
  return Vector(_mm512_maskz_min_ps(0xffff, __m512(bound), __m512(x)));
#elif defined(__AVX2__)
  return Vector(_mm256_min_ps(__m256(bound), __m256(x)));
#elif defined(__SSE2__)
  return Vector(_mm_min_ps(__m128(bound), __m128(x)));
#else
  return bound < x ? bound : x;
#endif
}

FT_INLINE Vector SquareRoot(Vector v) {
#if defined(__AVX512F__)
  // Masked intrinsics here and above: the unmasked ones trigger a false warning of g++ 12 (its bug
  // 105593).
  return Vector(_mm512_maskz_sqrt_ps(0xffff, __m512(v)));
#elif defined(__AVX2__)
  return Vector(_mm256_sqrt_ps(__m256(v)));
#elif defined(__SSE2__)
  return Vector(_mm_sqrt_ps(__m128(v)));
#else
  for (int i = 0; i < kLanes; ++i) {
    v[i] = __builtin_sqrtf(v[i]);
  }
  return v;
#endif
}

// Conversions to fp64 by halves: a vector register holds half as many doubles. Sums of squares and
// dot products use them.
template <int... I>
FT_INLINE HalfVector LowHalf(Vector v, Indices<I...>) {
  return __builtin_shufflevector(v, v, I...);
}
template <int... I>
FT_INLINE HalfVector HighHalf(Vector v, Indices<I...>) {
  return __builtin_shufflevector(v, v, (I + kLanes / 2)...);
}
FT_INLINE DoubleVector LowDoubles(Vector v) {
  return __builtin_convertvector(LowHalf(v, MakeIndices<kLanes / 2>{}), DoubleVector);
}
FT_INLINE DoubleVector HighDoubles(Vector v) {
  return __builtin_convertvector(HighHalf(v, MakeIndices<kLanes / 2>{}), DoubleVector);
}

// Each lane i plus lane (i XOR distance).
template <int kDistance, class V, int... I>
FT_INLINE V PlusNeighbour(V v, Indices<I...>) {
  return v + __builtin_shufflevector(v, v, (I ^ kDistance)...);
}

// Sum of all lanes, pairwise.
FT_INLINE float SumLanes(Vector v) {
  if constexpr (kLanes == 16) {
    v = PlusNeighbour<8>(v, MakeIndices<kLanes>{});
  }
  if constexpr (kLanes >= 8) {
    v = PlusNeighbour<4>(v, MakeIndices<kLanes>{});
  }
  v = PlusNeighbour<2>(v, MakeIndices<kLanes>{});
  v = PlusNeighbour<1>(v, MakeIndices<kLanes>{});
  return v[0];
}
// The same order in fp64.
FT_INLINE double SumLanes(DoubleVector v) {
  constexpr int64_t kCount = kLanes / 2;
  if constexpr (kCount == 8) {
    v = PlusNeighbour<4>(v, MakeIndices<kCount>{});
  }
  if constexpr (kCount >= 4) {
    v = PlusNeighbour<2>(v, MakeIndices<kCount>{});
  }
  v = PlusNeighbour<1>(v, MakeIndices<kCount>{});
  return v[0];
}

// Four running sums, so that an addition does not wait for the previous one.
struct Sum {
  Vector part[4] = {};

  FT_INLINE Vector total() const { return (part[0] + part[1]) + (part[2] + part[3]); }
};

// Sum over the lanes of term(i, access) for i = 0, kLanes, ... below n. A term must be 0 in lanes
// beyond n (use keep).
template <class Term>
FT_INLINE float SumOver(int64_t n, const Term& term) {
  Sum sum;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    sum.part[0] += term(i, Whole{});
    sum.part[1] += term(i + kLanes, Whole{});
    sum.part[2] += term(i + 2 * kLanes, Whole{});
    sum.part[3] += term(i + 3 * kLanes, Whole{});
  }
  for (; i + kLanes <= n; i += kLanes) {
    sum.part[0] += term(i, Whole{});
  }
  if (i < n) {
    sum.part[1] += term(i, Part{n - i});
  }
  return SumLanes(sum.total());
}

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

// 2^fraction for |fraction| <= 1/2: 1 + fraction * polynomial of degree 5. The polynomial is the
// minimax one (Remez exchange) with relative error 2.0e-9 before rounding.
FT_INLINE Vector Exp2Fraction(Vector fraction) {
  Vector p = fraction * 1.535335467e-4F + 1.339887420e-3F;
  p = p * fraction + 9.618437382e-3F;
  p = p * fraction + 5.550332472e-2F;
  p = p * fraction + 2.402264791e-1F;
  p = p * fraction + 6.931472029e-1F;
  return p * fraction + 1.0F;
}

// 1.5 * 2^23. Adding it rounds a value with |x| < 2^22 to an integer, which then lies in the low
// bits.
constexpr float kRounder = 12582912.0F;

// mantissa * 2^n with n = rounded - kRounder, n <= 129. Returns 0 where x < least, and infinity
// beyond the range.
FT_INLINE Vector ScaleByPower(Vector mantissa, Vector rounded, Vector x, float least) {
#if defined(__AVX512F__)
  const Vector n = rounded - kRounder;
  const __mmask16 mask = _mm512_cmp_ps_mask(__m512(x), __m512(Set(least)), _CMP_NLT_UQ);
  return Vector(_mm512_maskz_scalef_ps(mask, __m512(mantissa), __m512(n)));
#else
  // Builds 2^(n-1) from its exponent bits, then doubles: 2^128 has no fp32 representation.
  const Vector power = AsFloats((AsBits(rounded) + 126U) << 23);
  const Vector half = mantissa * power;
  return AsFloats(AsBits(half + half) & ~BitVector(x < least));
#endif
}

// 2^x with relative error below 1.5e-7. It is 0 below x = -125 (no subnormal results), infinite
// from x = 128 up, and NaN for NaN.
FT_INLINE Vector Exp2(Vector x) {
  const Vector bounded = Min(Set(129.0F), x);
  const Vector rounded = bounded + kRounder;
  const Vector mantissa = Exp2Fraction(bounded - (rounded - kRounder));
  return ScaleByPower(mantissa, rounded, x, -125.0F);
}

// e^x with relative error below 2e-7. It is 0 below x = -86.6, infinite from x = 88.73 up, and NaN
// for NaN. x = n ln 2 + r, with ln 2 in two parts; the first has 15 bits, so that n * first is
// exact (Cody and Waite 1980, ch. 6).
FT_INLINE Vector Exp(Vector x) {
  const Vector bounded = Min(Set(89.0F), x);
  const Vector rounded = bounded * kLog2E + kRounder;
  const Vector n = rounded - kRounder;
  const Vector rest = (bounded - n * 0.693145752F) - n * 1.42860677e-6F;
  const Vector mantissa = Exp2Fraction(rest * kLog2E);
  return ScaleByPower(mantissa, rounded, x, -86.6F);
}

// Computes two sums at once: term(i, access, a, b) adds to a and to b.
template <class Term>
FT_INLINE void SumsOver(int64_t n, float& sum_a, float& sum_b, const Term& term) {
  Vector a[2] = {};
  Vector b[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    term(i, Whole{}, a[0], b[0]);
    term(i + kLanes, Whole{}, a[1], b[1]);
  }
  for (; i + kLanes <= n; i += kLanes) {
    term(i, Whole{}, a[0], b[0]);
  }
  if (i < n) {
    term(i, Part{n - i}, a[1], b[1]);
  }
  sum_a = SumLanes(a[0] + a[1]);
  sum_b = SumLanes(b[0] + b[1]);
}

// Exchanges the off-diagonal blocks of two rows that are kStride apart: one step of Transpose.
template <int kStride, int... I>
FT_INLINE void ExchangeBlocks(Vector& a, Vector& b, Indices<I...>) {
  const Vector low =
      __builtin_shufflevector(a, b, ((I & kStride) == 0 ? I : kLanes + I - kStride)...);
  b = __builtin_shufflevector(a, b, ((I & kStride) == 0 ? I + kStride : kLanes + I)...);
  a = low;
}

template <int kStride>
FT_INLINE void ExchangeRows(Vector (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kStride) == 0) {
      ExchangeBlocks<kStride>(rows[i], rows[i + kStride], MakeIndices<kLanes>{});
    }
  }
}

// Transposes a square of kLanes vectors: exchanges off-diagonal blocks of half the size, then a
// quarter, and so on (Eklundh 1972).
FT_INLINE void Transpose(Vector (&rows)[kLanes]) {
  if constexpr (kLanes == 16) {
    ExchangeRows<8>(rows);
  }
  if constexpr (kLanes >= 8) {
    ExchangeRows<4>(rows);
  }
  ExchangeRows<2>(rows);
  ExchangeRows<1>(rows);
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

// PTX instructions on registers, written from the PTX ISA: arithmetic, bits, comparisons and
// conversions. Registers are unsigned integers of their width, or bool for predicates. Do_<opcode>
// is the instruction of that name; T is its type.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#define FT_PTX inline __attribute__((always_inline))

namespace foretrain::ptx {

// ---- registers

struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};

template <std::size_t kBytes>
using Bits = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T>;
template <class T>
using Unsigned = std::conditional_t<std::is_same_v<T, bool>, bool, Bits<sizeof(T)>>;

// ---- arithmetic. Integers wrap around.

#define FT_BINARY(name, floats, integers)                            \
  template <class T>                                                 \
  FT_PTX T Do_##name(T a, T b) {                                     \
    if constexpr (kIsFloat<T>) {                                     \
      return floats;                                                 \
    } else {                                                         \
      [[maybe_unused]] const auto x = static_cast<std::uint64_t>(a), \
                                  y = static_cast<std::uint64_t>(b); \
      return static_cast<T>(integers);                               \
    }                                                                \
  }
FT_BINARY(add, a + b, x + y)
FT_BINARY(sub, a - b, x - y)
FT_BINARY(min, std::fmin(a, b), std::min(a, b))
FT_BINARY(max, std::fmax(a, b), std::max(a, b))
#undef FT_BINARY

template <class T>
FT_PTX T Do_mul(T a, T b) {
  return a * b;
}
template <class T>
FT_PTX T Do_add_rn(T a, T b) {
  return a + b;
}
template <class T>
FT_PTX T Do_sub_rn(T a, T b) {
  return a - b;
}
template <class T>
FT_PTX T Do_mul_rn(T a, T b) {
  return a * b;
}
template <class T>
FT_PTX T Do_div_rn(T a, T b) {
  return a / b;
}
// The result of a division by zero is not specified for integers; GPUs give all bits.
template <class T>
FT_PTX T Do_div(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Do_sub<T>(0, a);
  return static_cast<T>(a / b);
}
template <class T>
FT_PTX T Do_rem(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}
template <class T>
FT_PTX T Do_mul_lo(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T>
FT_PTX T Do_mul_hi(T a, T b) {
  using Product = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>(static_cast<Product>(a) * static_cast<Product>(b) >> 8 * sizeof(T));
}
template <class T>
FT_PTX auto Do_mul_wide(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::make_signed_t<Bits<2 * sizeof(T)>>,
                                  Bits<2 * sizeof(T)>>;
  return static_cast<Wide>(static_cast<Wide>(a) * static_cast<Wide>(b));
}
template <class T>
FT_PTX T Do_mad_lo(T a, T b, T c) {
  return Do_add<T>(Do_mul_lo<T>(a, b), c);
}
template <class T>
FT_PTX T Do_fma_rn(T a, T b, T c) {
  return std::fma(a, b, c);
}
// Rounded towards minus infinity. The sum in fp64 may be rounded itself; the comparison then still
// gives the neighbour below or the number.
template <class T>
FT_PTX T Do_fma_rm(T a, T b, T c) {
  static_assert(std::is_same_v<T, float>);
  const double exact = std::fma(double{a}, double{b}, double{c});
  const auto nearest = static_cast<float>(exact);
  return double{nearest} > exact ? std::nextafterf(nearest, -INFINITY) : nearest;
}
template <class T>
FT_PTX T Do_neg(T a) {
  if constexpr (kIsFloat<T>) {
    return -a;
  } else {
    return Do_sub<T>(0, a);
  }
}
template <class T>
FT_PTX T Do_abs(T a) {
  if constexpr (kIsFloat<T>) {
    return std::fabs(a);
  } else {
    return a < 0 ? Do_sub<T>(0, a) : a;
  }
}
template <class T>
FT_PTX T Do_sqrt_rn(T a) {
  return std::sqrt(a);
}
template <class T>
FT_PTX T Do_rcp_rn(T a) {
  return T{1} / a;
}
// In fp64 the low word of the result is zero.
template <class T>
FT_PTX T Do_rcp_approx_ftz(T a) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(1.0 / a) &
                                 ~std::uint64_t{0xffffffff});
  } else {
    return T{1} / a;
  }
}
template <class T>
FT_PTX T Do_ex2_approx_ftz(T a) {
  const T result = std::exp2(a);
  return result < std::numeric_limits<T>::min() ? T{0} : result;
}
template <class T>
FT_PTX T Do_copysign(T a, T b) {
  return std::copysign(b, a);
}

// ---- bits

template <class T>
FT_PTX T Do_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
FT_PTX T Do_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
FT_PTX T Do_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
FT_PTX T Do_not(T a) {
  if constexpr (std::is_same_v<T, bool>) {
    return !a;
  } else {
    return static_cast<T>(~a);
  }
}
template <class T>
FT_PTX T Do_shl(T a, std::uint32_t bits) {
  return bits >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<std::uint64_t>(a) << bits);
}
template <class T>
FT_PTX T Do_shr(T a, std::uint32_t bits) {
  if (bits >= 8 * sizeof(T)) return static_cast<T>(a < 0 ? -1 : 0);
  return static_cast<T>(a >> bits);
}
template <class T>
FT_PTX T Do_brev(T x) {
  T reversed = 0;
  for (unsigned bit = 0; bit < 8 * sizeof x; ++bit) reversed = reversed << 1 | (x >> bit & 1);
  return reversed;
}
template <class T>
FT_PTX std::uint32_t Do_clz(T a) {
  return static_cast<std::uint32_t>(std::countl_zero(static_cast<Unsigned<T>>(a)));
}
// By how much to shift to the left so that the highest bit that is set becomes the top one.
template <class T>
FT_PTX std::uint32_t Do_bfind_shiftamt(T a) {
  static_assert(std::is_unsigned_v<T>);
  return a != 0 ? Do_clz(a) : ~0U;
}
template <class T>
FT_PTX std::uint32_t Do_popc(T a) {
  return static_cast<std::uint32_t>(std::popcount(static_cast<Unsigned<T>>(a)));
}
// Each of four selectors names a byte of b:a; its bit 3 copies the byte's sign to all bits.
template <class T>
FT_PTX T Do_prmt(T a, T b, T selectors) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  T result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned selector = selectors >> 4 * i & 15U;
    auto byte = static_cast<T>(bytes >> 8 * (selector & 7U) & 0xffU);
    if ((selector & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
template <class T>
FT_PTX T Do_bfi(T a, T b, std::uint32_t at, std::uint32_t bits) {
  const T mask = Do_shl<T>(Do_sub<T>(Do_shl<T>(1, bits), 1), at);
  return static_cast<T>((b & ~mask) | (Do_shl<T>(a, at) & mask));
}

// ---- carries: the 33rd bit of the last sum or difference

FT_PTX std::uint32_t Carried(std::uint64_t wide, std::uint32_t& carry) {
  carry = wide >> 32 & 1U;
  return static_cast<std::uint32_t>(wide);
}
template <class T>
FT_PTX T Do_add_cc(std::uint32_t& carry, T a, T b) {
  return Carried(std::uint64_t{a} + b, carry);
}
template <class T>
FT_PTX T Do_addc(std::uint32_t& carry, T a, T b) {
  return a + b + carry;
}
template <class T>
FT_PTX T Do_addc_cc(std::uint32_t& carry, T a, T b) {
  return Carried(std::uint64_t{a} + b + carry, carry);
}
template <class T>
FT_PTX T Do_sub_cc(std::uint32_t& carry, T a, T b) {
  return Carried(std::uint64_t{a} - b, carry);
}
template <class T>
FT_PTX T Do_subc(std::uint32_t& carry, T a, T b) {
  return a - b - carry;
}
template <class T>
FT_PTX T Do_subc_cc(std::uint32_t& carry, T a, T b) {
  return Carried(std::uint64_t{a} - b - carry, carry);
}
template <class T>
FT_PTX T Do_mad_lo_cc(std::uint32_t& carry, T a, T b, T c) {
  return Do_add_cc<T>(carry, Do_mul_lo<T>(a, b), c);
}
template <class T>
FT_PTX T Do_madc_lo(std::uint32_t& carry, T a, T b, T c) {
  return Do_addc<T>(carry, Do_mul_lo<T>(a, b), c);
}
template <class T>
FT_PTX T Do_madc_hi(std::uint32_t& carry, T a, T b, T c) {
  return Do_addc<T>(carry, Do_mul_hi<T>(a, b), c);
}
template <class T>
FT_PTX T Do_madc_lo_cc(std::uint32_t& carry, T a, T b, T c) {
  return Do_addc_cc<T>(carry, Do_mul_lo<T>(a, b), c);
}
template <class T>
FT_PTX T Do_madc_hi_cc(std::uint32_t& carry, T a, T b, T c) {
  return Do_addc_cc<T>(carry, Do_mul_hi<T>(a, b), c);
}

// ---- comparisons. The forms with u are true for NaN, the others false.

template <class T>
FT_PTX bool IsUnordered(T a, T b) {
  return a != a || b != b;
}
#define FT_COMPARE(name, expression)     \
  template <class T>                     \
  FT_PTX bool Do_setp_##name(T a, T b) { \
    return expression;                   \
  }
FT_COMPARE(eq, a == b)
FT_COMPARE(ne, kIsFloat<T> ? a<b || a> b : a != b)
FT_COMPARE(lt, a < b)
FT_COMPARE(le, a <= b)
FT_COMPARE(gt, a > b)
FT_COMPARE(ge, a >= b)
FT_COMPARE(lo, a < b)
FT_COMPARE(ls, a <= b)
FT_COMPARE(hi, a > b)
FT_COMPARE(hs, a >= b)
FT_COMPARE(equ, IsUnordered(a, b) || a == b)
FT_COMPARE(neu, IsUnordered(a, b) || a != b)
FT_COMPARE(ltu, IsUnordered(a, b) || a < b)
FT_COMPARE(leu, IsUnordered(a, b) || a <= b)
FT_COMPARE(gtu, IsUnordered(a, b) || a > b)
FT_COMPARE(geu, IsUnordered(a, b) || a >= b)
FT_COMPARE(num, !IsUnordered(a, b))
FT_COMPARE(nan, IsUnordered(a, b))
#undef FT_COMPARE
template <class T>
FT_PTX T Do_selp(T a, T b, bool first) {
  return first ? a : b;
}

// ---- conversions. NaN becomes the canonical NaN, as on a GPU.

FT_PTX float Widened(Half x) { return _cvtsh_ss(x.bits); }
FT_PTX float Widened(Bfloat x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
FT_PTX void Narrowed(float x, Half& to) {
  to.bits = x != x ? 0x7fff : _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
FT_PTX void Narrowed(float x, Bfloat& to) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  to.bits = x != x ? 0x7fff : static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1U)) >> 16);
}

template <class D, class S>
FT_PTX D Do_cvt(S x) {
  if constexpr (std::is_class_v<S>) {
    return Widened(x);
  } else {
    static_assert(kIsFloat<D> || !kIsFloat<S>);
    return static_cast<D>(x);
  }
}
template <class D, class S>
FT_PTX D Do_cvt_rn(S x) {
  if constexpr (std::is_class_v<D>) {
    D to;
    Narrowed(x, to);
    return to;
  } else if constexpr (std::is_class_v<S>) {
    return Widened(x);
  } else {
    static_assert(kIsFloat<D>);
    return static_cast<D>(x);
  }
}
// A rounded number as D; integers saturate, and NaN becomes 0.
template <class D, class S>
FT_PTX D OfWhole(S whole) {
  if constexpr (kIsFloat<D>) {
    return static_cast<D>(whole);
  } else {
    if (whole != whole) return 0;
    if (whole <= static_cast<S>(std::numeric_limits<D>::min()))
      return std::numeric_limits<D>::min();
    if (whole >= static_cast<S>(std::numeric_limits<D>::max()))
      return std::numeric_limits<D>::max();
    return static_cast<D>(whole);
  }
}
template <class D, class S>
FT_PTX D Do_cvt_rzi(S x) {
  return OfWhole<D>(std::trunc(x));
}
template <class D, class S>
FT_PTX D Do_cvt_rni(S x) {
  return OfWhole<D>(std::nearbyint(x));
}
template <class D, class S>
FT_PTX D Do_cvt_rmi(S x) {
  return OfWhole<D>(std::floor(x));
}
template <class D, class S>
FT_PTX D Do_cvt_rpi(S x) {
  return OfWhole<D>(std::ceil(x));
}
template <class D, class S>
FT_PTX D Do_cvt_sat(S x) {
  static_assert(kIsFloat<D> && kIsFloat<S>);
  return x > 0 ? static_cast<D>(std::min<S>(x, 1)) : D{0};
}
template <class T>
FT_PTX std::uint32_t ConvertPair(float high, float low) {
  return std::uint32_t{Do_cvt_rn<T>(high).bits} << 16 | Do_cvt_rn<T>(low).bits;
}

// Code of a float: `kMantissa` bits after the point, the exponents down to 2^kLeast, below them
// multiples of 2^(kLeast - kMantissa). To nearest, halves to even; what exceeds kLargest saturates.
// NaN becomes 0x7f.
template <int kMantissa, int kLeast, int kLargest>
FT_PTX std::uint32_t CodeOf(float x) {
  const std::uint32_t sign = std::signbit(x) ? 0x80U : 0U;
  if (std::isnan(x)) return 0x7f;
  const double size = std::min(std::fabs(static_cast<double>(x)), double{kLargest});
  int exponent = size > 0 ? std::max(std::ilogb(size), kLeast) : kLeast;
  const double units = std::nearbyint(std::ldexp(size, kMantissa - exponent));
  // A unit of 2^(kMantissa + 1) is the next exponent's first code, which follows this one's last.
  const auto steps = static_cast<std::uint32_t>(units);
  const auto begin = static_cast<std::uint32_t>(exponent - kLeast) << kMantissa;
  return sign | (begin + steps);
}
FT_PTX std::uint32_t ConvertToE4M3(float high, float low) {
  return CodeOf<3, -6, 448>(high) << 8 | CodeOf<3, -6, 448>(low);
}
FT_PTX std::uint32_t ConvertToE5M2(float high, float low) {
  return CodeOf<2, -14, 57344>(high) << 8 | CodeOf<2, -14, 57344>(low);
}

}  // namespace foretrain::ptx

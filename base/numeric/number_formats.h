// Conversion between fp32 and the 16- and 8-bit formats, as integer arithmetic on the bits of a
// float. Kernels store these formats, and readers of their state decode them. Blocks and their
// scales are elsewhere. The functions have no branches on data and are forced inline, so that each
// caller's instruction set vectorizes them.
//
// The dynamic code (Dettmers et al. 2022, s. 2.2: dynamic tree quantization) divides [0, 1] into
// the decades below 10^0, 10^-1, ... 10^-6. Decade i from the bottom, i = 0..6, has 2^i equal bins
// (signed) or 2^(i+1) (unsigned); a number becomes the middle of its bin. 0 and 1 have codes of
// their own.
#ifndef FORETRAIN_BASE_NUMBER_FORMATS_H_
#define FORETRAIN_BASE_NUMBER_FORMATS_H_

#include <stdint.h>

#define FT_FORMAT_FUNCTION static constexpr inline __attribute__((always_inline))

#define FT_FORMAT_MEMBER constexpr inline __attribute__((always_inline))

namespace foretrain {

FT_FORMAT_FUNCTION uint32_t BitsOfFloat(float x) { return __builtin_bit_cast(uint32_t, x); }
FT_FORMAT_FUNCTION float FloatOfBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
// The exponent bits of infinities and NaN are all ones.
FT_FORMAT_FUNCTION bool IsFinite(float x) { return (BitsOfFloat(x) & 0x7f800000U) != 0x7f800000U; }

// Rounds to nearest, halves to even; NaN stays NaN.
FT_FORMAT_FUNCTION uint16_t Bf16OfFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40U;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}
FT_FORMAT_FUNCTION float FloatOfBf16(uint16_t x) {
  return FloatOfBits(static_cast<uint32_t>(x) << 16);
}

// Stochastic rounding to one of the two bf16 neighbours of x, with probability by nearness, so that
// the expected value is x. Updates much smaller than the last bit then still count on average. The
// draw depends only on `noise` and the bits of x, so an element is rounded alike wherever it lies.
// Pass another `noise` each step. Infinities and NaN stay.
FT_FORMAT_FUNCTION float StochasticBf16(float x, uint32_t noise) {
  const uint32_t bits = BitsOfFloat(x);
  uint32_t draw = bits ^ noise;  // MurmurHash3's finalizer
  draw = (draw ^ (draw >> 16)) * 0x85ebca6bU;
  draw = (draw ^ (draw >> 13)) * 0xc2b2ae35U;
  draw ^= draw >> 16;
  const uint32_t rounded = (bits + (draw & 0xffffU)) & 0xffff0000U;
  return FloatOfBits((bits & 0x7f800000U) == 0x7f800000U ? bits : rounded);
}

// binary16 (IEEE 754), rounded to nearest, halves to even. NaN stays NaN; numbers beyond the
// largest become infinity.
FT_FORMAT_FUNCTION uint16_t Fp16OfFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t size = bits & 0x7fffffffU;
  const uint32_t normal = ((size + 0xfffU + ((size >> 13) & 1U)) >> 13) - (112U << 10);
  // Below 2^-14 codes are 2^-24 apart: adding 2^23 leaves the nearest integer in the low bits.
  const float spread = FloatOfBits(size < 0x38800000U ? size : 0U) * 16777216.0F + 8388608.0F;
  const uint32_t small = BitsOfFloat(spread) - 0x4b000000U;
  const uint32_t finite = size < 0x38800000U ? small : normal;
  const uint32_t code = size >= 0x477ff000U ? 0x7c00U : finite;  // from 65520 on
  const uint32_t any = size > 0x7f800000U ? 0x7e00U : code;
  return static_cast<uint16_t>((bits >> 16 & 0x8000U) | any);
}
FT_FORMAT_FUNCTION float FloatOfFp16(uint16_t code) {
  const uint32_t size = code & 0x7fffU;
  const float small = static_cast<float>(static_cast<int32_t>(size)) * 0x1p-24F;
  const uint32_t normal = (size << 13) + (112U << 23);
  const uint32_t special = (size << 13) + (224U << 23);  // infinity and NaN
  const uint32_t large = size >= 0x7c00U ? special : normal;
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000U) << 16;
  return FloatOfBits((size < 0x400U ? BitsOfFloat(small) : large) | sign);
}

// e4m3 (OCP 2023: bias 7, largest 448, no infinities) for |x| <= 448, to nearest, halves to even.
FT_FORMAT_FUNCTION uint8_t Fp8OfFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t size = bits & 0x7fffffffU;
  const uint32_t normal = ((size + 0x7ffffU + ((size >> 20) & 1U)) >> 20) - (120U << 3);
  // Below 2^-6 codes are 2^-9 apart: adding 2^23 leaves the nearest integer in the low bits.
  const uint32_t small = BitsOfFloat(FloatOfBits(size) * 512.0F + 8388608.0F) - 0x4b000000U;
  const uint32_t code = size < 0x3c800000U ? small : normal;
  return static_cast<uint8_t>((bits >> 24 & 0x80U) | (code & 0x7fU));
}
FT_FORMAT_FUNCTION float FloatOfFp8(uint8_t code) {
  const uint32_t size = code & 0x7fU;
  const float small = static_cast<float>(static_cast<int32_t>(size)) * 0.001953125F;  // 2^-9
  const float normal = FloatOfBits((size << 20) + (120U << 23));
  const uint32_t sign = static_cast<uint32_t>(code & 0x80U) << 24;
  return FloatOfBits(BitsOfFloat(size < 8U ? small : normal) | sign);
}

// e5m2 (OCP 2023: bias 15, largest 57,344) for |x| <= 57344, to nearest, halves to even.
FT_FORMAT_FUNCTION uint8_t E5m2OfFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t size = bits & 0x7fffffffU;
  const uint32_t normal = ((size + 0xfffffU + ((size >> 21) & 1U)) >> 21) - (112U << 2);
  // Below 2^-14 codes are 2^-16 apart: adding 2^23 leaves the nearest integer in the low bits.
  const uint32_t small = BitsOfFloat(FloatOfBits(size) * 65536.0F + 8388608.0F) - 0x4b000000U;
  const uint32_t code = size < 0x38800000U ? small : normal;
  return static_cast<uint8_t>((bits >> 24 & 0x80U) | (code & 0x7fU));
}
// e5m2 has the exponents of binary16 and the first two bits of its mantissa.
FT_FORMAT_FUNCTION float FloatOfE5m2(uint8_t code) {
  return FloatOfFp16(static_cast<uint16_t>(code << 8));
}

// Rounds to the 10 mantissa bits of TF32, to nearest, halves to even; NaN stays NaN.
FT_FORMAT_FUNCTION float Tf32OfFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t rounded = bits + 0xfffU + ((bits >> 13) & 1U);
  const uint32_t any = (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : rounded;
  return FloatOfBits(any & 0xffffe000U);
}

// Rounds |x| <= 127 to the nearest integer, halves to even.
FT_FORMAT_FUNCTION int8_t Int8OfFloat(float x) {
  const uint32_t shifted = BitsOfFloat(x + 12582912.0F);  // 1.5 * 2^23
  return static_cast<int8_t>(static_cast<uint8_t>(shifted & 0xffU));
}

// Upper end of decade i, 10^(i - 6).
FT_FORMAT_FUNCTION float DecadeEnd(int32_t i) {
  float end = 1.0F;
  end = i < 6 ? 1e-1F : end;
  end = i < 5 ? 1e-2F : end;
  end = i < 4 ? 1e-3F : end;
  end = i < 3 ? 1e-4F : end;
  end = i < 2 ? 1e-5F : end;
  return i < 1 ? 1e-6F : end;
}

// Dynamic code of x in [0, 1]: 0 for 0, 1 to `top` - 1 ascending with x, `top` for 1. `extra` is 0
// (signed, top 128) or 1 (unsigned, top 255): each decade has 2^extra times as many bins.
FT_FORMAT_FUNCTION int32_t DynamicCode(float x, int32_t extra, int32_t top) {
  int32_t decade = 0;
  decade += x >= 1e-6F ? 1 : 0;
  decade += x >= 1e-5F ? 1 : 0;
  decade += x >= 1e-4F ? 1 : 0;
  decade += x >= 1e-3F ? 1 : 0;
  decade += x >= 1e-2F ? 1 : 0;
  decade += x >= 1e-1F ? 1 : 0;
  const int32_t bins = 1 << (decade + extra);
  const float end = DecadeEnd(decade);
  const float place = (x - 0.1F * end) / (0.9F * end) * static_cast<float>(bins);
  int32_t bin = static_cast<int32_t>(place > 0.0F ? place : 0.0F);
  bin = bin < bins ? bin : bins - 1;
  const int32_t code = bins + bin - extra;
  // `top` starts at the midpoint between the last bin's middle and 1.
  const float last = 1.0F - 0.225F / static_cast<float>(64 << extra);
  const int32_t inside = x >= last ? top : code;
  return x >= 1e-7F ? inside : 0;
}
FT_FORMAT_FUNCTION float DynamicValue(int32_t code, int32_t extra, int32_t top) {
  const int32_t number = code + extra;  // bins + bin
  const uint32_t power = BitsOfFloat(static_cast<float>(number)) >> 23;
  const int32_t bins = 1 << ((power - 127U) & 31U);
  const int32_t decade = static_cast<int32_t>(power) - 127 - extra;
  const float middle = (static_cast<float>(number - bins) + 0.5F) / static_cast<float>(bins);
  const float value = DecadeEnd(decade) * (0.1F + 0.9F * middle);
  const float inside = code == top ? 1.0F : value;
  return code == 0 ? 0.0F : inside;
}

// Signed code: 0, 1 to 127 as above, 128 for 1, and 128 + k for the negative of k = 1..127.
FT_FORMAT_FUNCTION uint8_t SignedDynamicOfFloat(float x) {
  const float size = FloatOfBits(BitsOfFloat(x) & 0x7fffffffU);
  const int32_t code = DynamicCode(size, 0, 128);
  const int32_t negative = 128 + (code < 127 ? code : 127);
  return static_cast<uint8_t>(x < 0.0F && code > 0 ? negative : code);
}
FT_FORMAT_FUNCTION float FloatOfSignedDynamic(uint8_t code) {
  const int32_t size = code > 128 ? code - 128 : code;
  const float value = DynamicValue(size, 0, 128);
  return code > 128 ? -value : value;
}
FT_FORMAT_FUNCTION uint8_t UnsignedDynamicOfFloat(float x) {
  return static_cast<uint8_t>(DynamicCode(x, 1, 255));
}
FT_FORMAT_FUNCTION float FloatOfUnsignedDynamic(uint8_t code) { return DynamicValue(code, 1, 255); }

// DynamicCode and DynamicValue as lookup tables: ten times as fast where a processor has no cheap
// gather. A cell groups the numbers with the same sign, exponent and first 7 mantissa bits; at most
// one code begins in it.
struct DynamicTables {
  static constexpr uint32_t kFirstCell = 0x3380;  // 2^-24, below the smallest number with a code
  static constexpr uint32_t kLastCell = 0x3f80;   // 1
  uint8_t first[kLastCell - kFirstCell + 1];      // code of the smallest number of a cell
  float next[256];                                // smallest number of the next code
  float value[256];                               // value of each code

  constexpr DynamicTables(int32_t extra, int32_t top) : first(), next(), value() {
    for (uint32_t cell = kFirstCell; cell <= kLastCell; ++cell) {
      const int32_t code = DynamicCode(FloatOfBits(cell << 16), extra, top);
      first[cell - kFirstCell] = static_cast<uint8_t>(code);
    }
    for (int32_t code = 0; code < 256; ++code) {
      value[code] =
          code <= top ? DynamicValue(code, extra, top) : -DynamicValue(code - top, extra, top);
      // Finds the smallest number whose code is above this one, by bisection over the bits.
      uint32_t below = kFirstCell << 16, from = (kLastCell << 16) + 1;
      while (code < top && from - below > 1) {
        const uint32_t middle = below + (from - below) / 2;
        (DynamicCode(FloatOfBits(middle), extra, top) > code ? from : below) = middle;
      }
      next[code] = FloatOfBits(from);
    }
  }

  // Code of x in [0, 1]; NaN gets an arbitrary code.
  FT_FORMAT_MEMBER uint32_t CodeOf(float x) const {
    const uint32_t bits = BitsOfFloat(x);
    const uint32_t cell = bits >> 16;
    const uint32_t high = cell < kLastCell ? cell : kLastCell;
    const uint32_t code = first[(high > kFirstCell ? high : kFirstCell) - kFirstCell];
    return code + (x >= next[code] ? 1U : 0U);
  }
  // Signed code of x in [-1, 1], without a branch.
  FT_FORMAT_MEMBER uint32_t SignedCodeOf(float x) const {
    const uint32_t bits = BitsOfFloat(x);
    const uint32_t code = CodeOf(FloatOfBits(bits & 0x7fffffffU));
    const uint32_t negative = (bits >> 31) & (code != 0 ? 1U : 0U);
    return code + negative * (128U - (code >> 7));
  }
};

}  // namespace foretrain

#endif  // FORETRAIN_BASE_NUMBER_FORMATS_H_

#include "base/numeric/number_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace foretrain {
namespace {

// The nearest of `numbers`; on a tie the one with the even index.
std::size_t Nearest(const std::vector<double>& numbers, double x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const double gain = std::fabs(numbers[best] - x) - std::fabs(numbers[i] - x);
    if (gain > 0 || (gain == 0 && i % 2 == 0)) best = i;
  }
  return best;
}

TEST(NumberFormats, RoundToBf16HalvesToEven) {
  EXPECT_EQ(Bf16OfFloat(1.0F), 0x3f80);
  EXPECT_EQ(Bf16OfFloat(1.0F + 1.0F / 256), 0x3f80);  // half of a step of 2^-7: even is below
  EXPECT_EQ(Bf16OfFloat(1.0F + 3.0F / 256), 0x3f82);  // and here above
  EXPECT_EQ(Bf16OfFloat(-0.0F), 0x8000);
  EXPECT_TRUE(std::isnan(FloatOfBf16(Bf16OfFloat(std::nanf("")))));
  EXPECT_EQ(FloatOfBf16(Bf16OfFloat(INFINITY)), INFINITY);
  EXPECT_EQ(FloatOfBf16(0xc040), -3.0F);
}

// Between bf16 numbers 2^-7 apart, the share of 4,096 draws that round up equals the fractional
// position of x, within 5 standard deviations.
TEST(NumberFormats, StochasticRoundingToBf16KeepsTheMean) {
  constexpr int kDraws = 4096;
  for (const float sign : {1.0F, -1.0F}) {
    for (const double way : {0.0, 1.0 / 1024, 0.125, 0.5, 0.875}) {
      const float x = sign * static_cast<float>(1.5 + way / 128);
      int far = 0;
      for (std::uint32_t noise = 1; noise <= kDraws; ++noise) {
        const float rounded = StochasticBf16(x, noise);
        ASSERT_TRUE(rounded == sign * 1.5F || rounded == sign * 1.5078125F) << rounded;
        far += rounded == sign * 1.5F ? 0 : 1;
      }
      EXPECT_NEAR(far, way * kDraws, 5 * std::sqrt(way * (1 - way) * kDraws)) << x;
    }
  }
  EXPECT_EQ(StochasticBf16(INFINITY, 7), INFINITY);
  EXPECT_EQ(StochasticBf16(-INFINITY, 7), -INFINITY);
  EXPECT_TRUE(std::isnan(StochasticBf16(std::nanf(""), 7)));
}

// Draws for different numbers of one step are independent, so their mean is kept too. Each error is
// below 2^-7, with a root mean square of at most 2^-8.8.
TEST(NumberFormats, StochasticRoundingOfManyNumbersKeepsTheirMean) {
  constexpr int kNumbers = 65536;
  double sum = 0;
  for (int i = 0; i < kNumbers; ++i) {
    const float x = 1.0F + static_cast<float>(i) / kNumbers;
    sum += double{StochasticBf16(x, 12345)} - double{x};
  }
  EXPECT_NEAR(sum / kNumbers, 0.0, 5 * std::ldexp(0.41, -7) / std::sqrt(kNumbers));
}

// binary16 by definition: 1,024 numbers a power of two from 2^-14 on, multiples of 2^-24 below.
// 65504 is the largest number; from halfway to 65536 on it rounds to infinity.
TEST(NumberFormats, Fp16HasTheNumbersOfItsDefinitionAndRoundsToTheNearest) {
  for (int code = 0; code < 0x7c00; ++code) {
    const auto number = [](int c) {
      const int exponent = c / 1024, mantissa = c % 1024;
      return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    };
    const double x = number(code), next = number(code + 1);
    ASSERT_EQ(FloatOfFp16(static_cast<std::uint16_t>(code)), x);
    ASSERT_EQ(Fp16OfFloat(static_cast<float>(-x)), code | 0x8000);
    ASSERT_EQ(Fp16OfFloat(static_cast<float>(x + 0.25 * (next - x))), code);
    ASSERT_EQ(Fp16OfFloat(static_cast<float>(x + 0.75 * (next - x))), code + 1);
    ASSERT_EQ(Fp16OfFloat(static_cast<float>((x + next) / 2)), code + code % 2);
  }
  EXPECT_EQ(FloatOfFp16(Fp16OfFloat(1e6F)), INFINITY);
  EXPECT_EQ(FloatOfFp16(Fp16OfFloat(-INFINITY)), -INFINITY);
  EXPECT_EQ(Fp16OfFloat(1e-9F), 0);
  EXPECT_TRUE(std::isnan(FloatOfFp16(Fp16OfFloat(std::nanf("")))));
}

// e5m2 is binary16 without its last eight bits (OCP 2023, s. 5.1).
TEST(NumberFormats, E5m2HasTheNumbersOfItsDefinitionAndRoundsToTheNearest) {
  std::vector<double> numbers;  // for codes 0 to 0x7b
  for (int code = 0; code <= 0x7b; ++code) {
    const int power = code >> 2, mantissa = code & 3;
    numbers.push_back(power == 0 ? mantissa * 0x1p-16
                                 : std::ldexp(1.0 + mantissa / 4.0, power - 15));
    EXPECT_EQ(FloatOfE5m2(static_cast<std::uint8_t>(code)), numbers.back()) << code;
    EXPECT_EQ(E5m2OfFloat(static_cast<float>(-numbers.back())), code | 0x80) << code;
  }
  EXPECT_EQ(numbers.back(), 57344.0);
  for (std::size_t code = 0; code + 1 < numbers.size(); ++code) {
    const double middle = (numbers[code] + numbers[code + 1]) / 2;
    for (const double x : {numbers[code], middle * (1 - 0x1p-20), middle, middle * (1 + 0x1p-20)}) {
      EXPECT_EQ(E5m2OfFloat(static_cast<float>(x)), Nearest(numbers, x)) << x;
    }
  }
}

// TF32 has fp32's exponents and 10 mantissa bits: the spacing from 1 on is 2^-10.
TEST(NumberFormats, Tf32KeepsTenBitsAndRoundsHalvesToEven) {
  EXPECT_EQ(Tf32OfFloat(1.0F + 0x1p-10F), 1.0F + 0x1p-10F);
  EXPECT_EQ(Tf32OfFloat(1.0F + 0x1p-11F), 1.0F);
  EXPECT_EQ(Tf32OfFloat(1.0F + 0x1p-11F + 0x1p-23F), 1.0F + 0x1p-10F);
  EXPECT_EQ(Tf32OfFloat(1.0F + 3 * 0x1p-11F), 1.0F + 0x1p-9F);
  EXPECT_EQ(Tf32OfFloat(-1.0F - 3 * 0x1p-11F), -1.0F - 0x1p-9F);
  EXPECT_EQ(Tf32OfFloat(2.0F - 0x1p-12F), 2.0F);
  EXPECT_EQ(Tf32OfFloat(3.4028235e38F), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(Tf32OfFloat(FloatOfBits(0x7f800001U))));
  EXPECT_TRUE(std::isnan(Tf32OfFloat(FloatOfBits(0xffffffffU))));
}

// e4m3 by definition: 8 numbers a power of two from 2^-6 on, multiples of 2^-9 below.
TEST(NumberFormats, Fp8HasTheNumbersOfItsDefinitionAndRoundsToTheNearest) {
  std::vector<double> numbers;
  for (int code = 0; code < 127; ++code) {  // 127 is NaN
    const int exponent = code / 8, mantissa = code % 8;
    numbers.push_back(exponent == 0 ? std::ldexp(mantissa, -9)
                                    : std::ldexp(8 + mantissa, exponent - 10));
    EXPECT_EQ(FloatOfFp8(static_cast<std::uint8_t>(code)), numbers.back()) << code;
    EXPECT_EQ(Fp8OfFloat(static_cast<float>(-numbers.back())), code | 0x80) << code;
  }
  EXPECT_EQ(numbers.back(), 448);
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    for (const double part : {0.0, 0.25, 0.5, 0.75, 0.99}) {
      const auto x = static_cast<float>(numbers[i] + part * (numbers[i + 1] - numbers[i]));
      EXPECT_EQ(Fp8OfFloat(x), Nearest(numbers, x)) << x;
    }
  }
}

TEST(NumberFormats, Int8RoundsHalvesToEven) {
  EXPECT_EQ(Int8OfFloat(0.5F), 0);
  EXPECT_EQ(Int8OfFloat(1.5F), 2);
  EXPECT_EQ(Int8OfFloat(-126.6F), -127);
  EXPECT_EQ(Int8OfFloat(127.0F), 127);
}

// The map of Dettmers et al. 2022 as in the authors' code. Decade i, i = 0..6, has the midpoints of
// 2^i + 1 (unsigned 2^(i + 1) + 1) evenly spaced numbers from 0.1 to 1, times 10^(i - 6). 0 and 1
// are added.
std::vector<double> DynamicMap(int extra) {
  std::vector<double> map = {0.0};
  for (int decade = 0; decade < 7; ++decade) {
    const int bins = 1 << (decade + extra);
    for (int bin = 0; bin < bins; ++bin) {
      map.push_back(std::pow(10.0, decade - 6) * (0.1 + 0.9 * (bin + 0.5) / bins));
    }
  }
  map.push_back(1.0);
  return map;
}

TEST(NumberFormats, DynamicCodesAreThoseOfTheMap) {
  const std::vector<double> signed_map = DynamicMap(0), unsigned_map = DynamicMap(1);
  ASSERT_EQ(signed_map.size(), 129U);
  ASSERT_EQ(unsigned_map.size(), 256U);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const double expected = code > 128 ? -signed_map[static_cast<std::size_t>(code) - 128]
                                       : signed_map[static_cast<std::size_t>(code)];
    EXPECT_NEAR(FloatOfSignedDynamic(byte), expected, 1e-6 * std::fabs(expected)) << code;
    EXPECT_EQ(SignedDynamicOfFloat(FloatOfSignedDynamic(byte)), code);
    const double positive = unsigned_map[static_cast<std::size_t>(code)];
    EXPECT_NEAR(FloatOfUnsignedDynamic(byte), positive, 1e-6 * positive) << code;
    EXPECT_EQ(UnsignedDynamicOfFloat(FloatOfUnsignedDynamic(byte)), code);
  }
}

TEST(NumberFormats, TablesGiveTheSameCodesAndValues) {
  constexpr DynamicTables kSigned(0, 128), kUnsigned(1, 255);
  // 0, and every 61st float between 2^-26 and 1.
  for (std::uint32_t bits = 0x32800000U; bits <= 0x3f800000U; bits += 61) {
    const float x = FloatOfBits(bits);
    ASSERT_EQ(kSigned.SignedCodeOf(x), SignedDynamicOfFloat(x)) << x;
    ASSERT_EQ(kSigned.SignedCodeOf(-x), SignedDynamicOfFloat(-x)) << -x;
    ASSERT_EQ(kUnsigned.CodeOf(x), UnsignedDynamicOfFloat(x)) << x;
  }
  EXPECT_EQ(kSigned.CodeOf(0.0F), 0U);
  EXPECT_EQ(kUnsigned.CodeOf(1.0F), 255U);
  EXPECT_EQ(kSigned.CodeOf(1.0F), 128U);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(kUnsigned.value[code], FloatOfUnsignedDynamic(byte));
    EXPECT_EQ(kSigned.value[code], FloatOfSignedDynamic(byte));
  }
}

// At most half a bin: 0.45 * 10^k divided by the number of bins in the decade that ends at 10^k.
// Numbers below 10^-7 become 0.
TEST(NumberFormats, DynamicCodesErrByHalfABinAtMost) {
  for (double x = 1e-9; x <= 1.0; x *= 1.0007) {
    const auto value = static_cast<float>(x);
    const int decade = std::clamp(static_cast<int>(std::floor(std::log10(x))) + 7, 0, 6);
    const double end = std::pow(10.0, decade - 6);
    for (const int extra : {0, 1}) {
      const double half_bin = 0.45 * end / (1 << (decade + extra));
      const double bound = x < 1e-7 ? 1e-7 : half_bin * 1.0001;
      const double got = extra == 0 ? FloatOfSignedDynamic(SignedDynamicOfFloat(value))
                                    : FloatOfUnsignedDynamic(UnsignedDynamicOfFloat(value));
      ASSERT_LE(std::fabs(got - x), bound) << x << " extra " << extra;
      if (extra == 0) {
        // -1 has no code of its own: its error is half a bin of the top decade.
        ASSERT_LE(std::fabs(FloatOfSignedDynamic(SignedDynamicOfFloat(-value)) + x),
                  std::max(bound, x > 0.99 ? 0.45 / 64 * 1.0001 : 0.0))
            << -x;
      }
    }
  }
  EXPECT_EQ(FloatOfSignedDynamic(SignedDynamicOfFloat(1.0F)), 1.0F);
  EXPECT_EQ(FloatOfUnsignedDynamic(UnsignedDynamicOfFloat(1.0F)), 1.0F);
}

}  // namespace
}  // namespace foretrain

#include "base/numeric/nf4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace foretrain {
namespace {

std::vector<std::uint8_t> Quantized(const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(Nf4Layout(n).bytes));
  QuantizeNf4(x.data(), n, packed.data());
  return packed;
}
std::vector<float> Dequantized(const std::vector<std::uint8_t>& packed, std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  DequantizeNf4(packed.data(), n, x.data());
  return x;
}

// 300 blocks of numbers that fp32 represents exactly; block maxima differ by up to a factor of
// seven.
std::vector<float> SomeNumbers() {
  std::vector<float> x;
  for (std::int64_t i = 0; i < 64 * 300; ++i) {
    const auto part = static_cast<double>((i * i * 37 + i * 11) % 2001 - 1000) / 4096;
    x.push_back(static_cast<float>(part * static_cast<double>(1 + i / 64 % 7)));
  }
  return x;
}

// Dettmers et al. 2023, s. 3: 4 bits, 8 bits a block of 64 and 32 bits a group of 256 blocks are
// 4.127 bits a number. The tensor also has one fp32 mean.
TEST(Nf4, Takes4127BitsAThousandNumbers) {
  const std::int64_t n = 1 << 20;
  const Nf4Layout at(n);
  EXPECT_EQ(at.bytes, n / 2 + n / 64 + n / (64 * 256) * 4 + 4);
  EXPECT_NEAR(8.0 * static_cast<double>(at.bytes) / static_cast<double>(n), 4.127, 1e-3);
  EXPECT_EQ(Nf4Layout(65).bytes, 33 + 4 + 4 + 2);  // two blocks, the second of one number
  EXPECT_EQ(Nf4Layout(0).bytes, 4);
}

// Recorded from bitsandbytes 0.50.2: quantize_4bit(x, blocksize=64, compress_statistics=True,
// quant_type="nf4") and dequantize_4bit. All codes must agree. Numbers may differ only if a block's
// code lies between two values, by one part in 256 of the range of block maxima.
TEST(Nf4, IsWhatBitsandbytesMakesOfTheSameNumbers) {
  const std::vector<float> x = SomeNumbers();
  const std::vector<std::uint8_t> packed = Quantized(x);
  const std::vector<std::uint8_t> first(packed.begin(), packed.begin() + 16);
  EXPECT_EQ(first, (std::vector<std::uint8_t>{0, 17, 55, 207, 40, 227, 194, 194, 230, 29, 114, 14,
                                              219, 170, 188, 223}));
  std::int64_t upper = 0, lower = 0;
  for (std::size_t i = 0; i < x.size() / 2; ++i) {
    upper += packed[i] >> 4;
    lower += packed[i] & 15;
  }
  EXPECT_EQ(upper, 70138);
  EXPECT_EQ(lower, 70196);
  const std::vector<float> out = Dequantized(packed, static_cast<std::int64_t>(x.size()));
  const std::pair<std::size_t, double> expected[] = {
      {0, -0.24399816989898682},    {2, -0.16986976563930511},    {63, 0.10753238946199417},
      {64, -0.33897024393081665},   {100, -0.044331472367048264}, {5000, -0.13849204778671265},
      {16383, -0.3842201232910156}, {16384, -0.6006802916526794}, {19199, -0.5685586333274841}};
  for (const auto& [i, number] : expected) EXPECT_NEAR(out[i], number, 1e-6) << i;
  double sizes = 0;
  for (const float number : out) sizes += std::abs(number);
  EXPECT_NEAR(sizes, 9143.992117030546, 1e-5 * 9143.99);
}

// With equal maxima in all blocks, the block codes are zero relative to their mean, and numbers on
// a quantile are kept exactly.
TEST(Nf4, KeepsQuantilesOfBlocksThatAreAlike) {
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 2 * 64; ++i) x.push_back(0.5F * FloatOfNf4(i % 16));
  EXPECT_EQ(Dequantized(Quantized(x), 128), x);
  EXPECT_EQ(Nf4OfFloat(0.0F), 7U);
  for (std::uint32_t code = 0; code < 16; ++code) EXPECT_EQ(Nf4OfFloat(FloatOfNf4(code)), code);
}

TEST(Nf4, HandlesOddAndEmptyTensors) {
  EXPECT_TRUE(Dequantized(Quantized({}), 0).empty());
  const std::vector<float> x = {1.0F, -1.0F, 0.0F};
  EXPECT_EQ(Dequantized(Quantized(x), 3), x);
  EXPECT_EQ(Dequantized(Quantized({0.0F, 0.0F}), 2), (std::vector<float>{0.0F, 0.0F}));
}

}  // namespace
}  // namespace foretrain

#include "base/numeric/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace foretrain {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers published with Random123 (kat_vectors, philox 4x32, 10 rounds).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(Philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      Philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(CounterRandom, TakesBitsFromTheBlocksInOrder) {
  // Seed 0, stream 0, index 0 and 1: the first known answer above, low word first.
  const CounterRandom random(0, std::uint64_t{0});
  EXPECT_EQ(random.Bits(0), 0xe169c58d6627e8d5U);
  EXPECT_EQ(random.Bits(1), 0x9b00dbd8bc57ac4cU);
}

TEST(CounterRandom, BelowStaysInRange) {
  const CounterRandom random(7, "order");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(random.Below(i, 10), 10U);
    EXPECT_EQ(random.Below(i, 1), 0U);
  }
}

TEST(CounterRandom, FillsTheSameWhateverThePieces) {
  const CounterRandom random(1234, "layers.3.mlp.up");
  std::vector<float> whole(103);
  random.FillNormal(5, 0, 0.02F, whole);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    std::vector<float> pieces(whole.size());
    random.FillNormal(5, 0, 0.02F, std::span(pieces).first(cut));
    random.FillNormal(5 + cut, 0, 0.02F, std::span(pieces).subspan(cut));
    ASSERT_EQ(pieces, whole) << cut;
  }
}

TEST(CounterRandom, StreamsAndSeedsDiffer) {
  float a = 0, b = 0, c = 0;
  CounterRandom(1, "a").FillNormal(0, 0, 1, {&a, 1});
  CounterRandom(1, "b").FillNormal(0, 0, 1, {&b, 1});
  CounterRandom(2, "a").FillNormal(0, 0, 1, {&c, 1});
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

// Compared with the math library, which is accurate to 1e-15. The words of block 0, seed 0, stream
// 0 are the first known answer. One rounding to float is at most 2^-24 of the value.
TEST(CounterRandom, NormalIsBoxMullerOfTheWords) {
  const CounterRandom random(0, std::uint64_t{0});
  const Words words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U};
  std::array<float, 4> got{};
  random.FillNormal(0, 0, 1, got);
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double u = (words[2 * pair] + 1.0) / 4294967296.0;
    const double angle = 2 * M_PI * words[2 * pair + 1] / 4294967296.0;
    const double radius = std::sqrt(-2 * std::log(u));
    const double want[2] = {radius * std::cos(angle), radius * std::sin(angle)};
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(got[2 * pair + i], want[i], std::abs(want[i]) * 0x1p-24 + 1e-14);
    }
  }
}

// n = 400,000: the standard errors are 0.0016 (mean), 0.0022 (variance) and sqrt(96/n) = 0.0155
// (fourth moment); five of each are allowed. The largest of n lies between 4 and 6.7.
TEST(CounterRandom, NormalHasTheMomentsOfANormal) {
  std::vector<float> values(400'000);
  CounterRandom(42, "moments").FillNormal(0, 0, 1, values);
  double sum = 0, square = 0, fourth = 0, neighbours = 0;
  float largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    sum += v;
    square += v * v;
    fourth += v * v * v * v;
    if (i > 0) neighbours += v * static_cast<double>(values[i - 1]);
    largest = std::max(largest, std::abs(values[i]));
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.0079);
  EXPECT_NEAR(square / n, 1, 0.0112);
  EXPECT_NEAR(fourth / n, 3, 0.078);
  EXPECT_NEAR(neighbours / n, 0, 0.0079);
  EXPECT_GT(largest, 4.0F);
  EXPECT_LT(largest, 6.7F);
}

// The digest was computed independently from the definition (Philox, Box-Muller with a math
// library). Initial weights define a run, so these bits must never change.
TEST(CounterRandom, KeepsItsBits) {
  std::vector<float> values(10'000);
  CounterRandom(1234, "layers.0.attention.qkv").FillNormal(0, 0, 0.02F, values);
  std::uint64_t digest = 0;
  for (const float value : values) {
    digest = (digest ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3U;
  }
  EXPECT_EQ(digest, 0xe6b5f728d12f1065U);
}

}  // namespace
}  // namespace foretrain

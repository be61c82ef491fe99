#include "runtime/checkpoint/moment_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace foretrain {
namespace {

// Codes of `count` numbers with the scales of their blocks.
struct Stored {
  std::vector<std::byte> codes, scales;
  explicit Stored(std::size_t count) : codes(count), scales((count + 255) / 256 * 4) {}
  float ScaleOf(std::size_t block) const {
    float scale;
    std::memcpy(&scale, scales.data() + block * 4, sizeof scale);
    return scale;
  }
  SavedCodes From(std::int64_t first) const {
    return {codes.data() + first, scales.data() + first / 256 * 4, first % 256};
  }
  std::vector<float> Values(StateKind moment) const {
    std::vector<float> values(codes.size());
    DecodeMoments(moment, From(0), 0, values);
    return values;
  }
};

// Quantized random numbers, as updates leave them; those of block b are about 2^b.
Stored Quantized(StateKind moment, std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = normal(random) * std::ldexp(1.0F, static_cast<int>(i / 256));
    values[i] = moment == StateKind::kMoment1 ? x : x * x;
  }
  Stored stored(count);
  MomentCodes codes(moment, static_cast<std::int64_t>(count));
  codes.TakeNumbers(0, NumberFormat::kFp32, reinterpret_cast<const std::byte*>(values.data()),
                    static_cast<std::int64_t>(count));
  codes.Store(stored.codes.data(), stored.scales.data());
  return stored;
}

constexpr StateKind kMoments[] = {StateKind::kMoment1, StateKind::kMoment2};

// Two pieces that meet inside a block, as tensors of one bucket do.
TEST(MomentCodes, KeepsTheBitsOfBlocksThatLieAlike) {
  for (const StateKind moment : kMoments) {
    const Stored from = Quantized(moment, 700);
    Stored to(700);
    MomentCodes codes(moment, 700);
    codes.TakeCodes(300, from.From(300), 0, 400);
    codes.TakeCodes(0, from.From(0), 0, 300);
    codes.Store(to.codes.data(), to.scales.data());
    EXPECT_EQ(to.codes, from.codes);
    EXPECT_EQ(to.scales, from.scales);
  }
}

// A bin of the largest decade is 0.9 / 64 of the largest number wide in signed codes, and 0.9 / 128
// in unsigned ones. A number moves by half of it at most, a square by twice that.
TEST(MomentCodes, QuantizesBlocksThatLieDifferentlyOnceMore) {
  for (const StateKind moment : kMoments) {
    const Stored from = Quantized(moment, 1024);
    const std::vector<float> before = from.Values(moment);
    Stored to(900);
    MomentCodes codes(moment, 900);
    codes.TakeCodes(0, from.From(100), 0, 900);
    codes.Store(to.codes.data(), to.scales.data());
    const std::vector<float> after = to.Values(moment);
    for (std::size_t i = 0; i < after.size(); ++i) {
      const float scale = to.ScaleOf(i / 256);
      const float largest = moment == StateKind::kMoment1 ? scale : scale * scale;
      EXPECT_NEAR(after[i], before[i + 100], 0.45F / 64 * largest * 1.001F) << i;
    }
  }
}

// 0.5 is 0.5 of the largest; the code of the largest itself is exact.
TEST(MomentCodes, TakesNumbersOfOtherFormats) {
  const std::vector<std::uint16_t> bf16 = {0x4000, 0x3f00};  // 2, 0.5
  MomentCodes codes(StateKind::kMoment1, 2);
  codes.TakeNumbers(0, NumberFormat::kBf16, reinterpret_cast<const std::byte*>(bf16.data()), 2);
  Stored to(2);
  codes.Store(to.codes.data(), to.scales.data());
  EXPECT_EQ(to.ScaleOf(0), 2.0F);
  const std::vector<float> values = to.Values(StateKind::kMoment1);
  EXPECT_EQ(values[0], 2.0F);
  EXPECT_NEAR(values[1], 0.5F, 0.45F / 64 * 2);
}

TEST(MomentCodes, LeavesBlocksAloneThatGotNoNumbers) {
  const Stored from = Quantized(StateKind::kMoment1, 256);
  Stored to(512);
  to.codes[300] = std::byte{9};
  MomentCodes codes(StateKind::kMoment1, 512);
  codes.TakeCodes(0, from.From(0), 0, 256);
  codes.Store(to.codes.data(), to.scales.data());
  EXPECT_EQ(to.codes[300], std::byte{9});
}

TEST(MomentCodes, ABlockThatIsNotFiniteStaysSo) {
  const float values[] = {1.0F, NAN};
  MomentCodes codes(StateKind::kMoment1, 2);
  codes.TakeNumbers(0, NumberFormat::kFp32, reinterpret_cast<const std::byte*>(values), 2);
  Stored to(2);
  codes.Store(to.codes.data(), to.scales.data());
  EXPECT_TRUE(std::isnan(to.ScaleOf(0)));
}

}  // namespace
}  // namespace foretrain

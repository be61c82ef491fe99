#include "runtime/parameters/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/numeric/number_formats.h"

namespace foretrain {
namespace {

template <class T>
std::optional<std::int64_t> FirstIn(const std::vector<T>& values, NumberFormat format) {
  return FirstNotFinite(std::as_bytes(std::span(values)), format);
}

// Values are looked through in blocks: the first, the last and the next one of a block count.
TEST(FirstNotFinite, IsFoundAtAnyIndexInEachFormat) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::size_t at : {0U, 1U, 4'095U, 4'096U, 9'998U, 9'999U}) {
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> fp32(10'000, std::numeric_limits<float>::max());
      std::vector<std::uint16_t> bf16(10'000, 0x7f7fU), fp16(10'000, 0x7bffU);  // the largest
      EXPECT_EQ(FirstIn(fp32, NumberFormat::kFp32), std::nullopt);
      EXPECT_EQ(FirstIn(bf16, NumberFormat::kBf16), std::nullopt);
      EXPECT_EQ(FirstIn(fp16, NumberFormat::kFp16), std::nullopt);
      fp32[at] = bad;
      bf16[at] = Bf16OfFloat(bad);
      fp16[at] = Fp16OfFloat(bad);
      if (at + 1 < fp32.size()) fp32[at + 1] = bad;
      EXPECT_EQ(FirstIn(fp32, NumberFormat::kFp32), static_cast<std::int64_t>(at));
      EXPECT_EQ(FirstIn(bf16, NumberFormat::kBf16), static_cast<std::int64_t>(at));
      EXPECT_EQ(FirstIn(fp16, NumberFormat::kFp16), static_cast<std::int64_t>(at));
    }
  }
}

TEST(FirstNotFinite, LeavesCodesAlone) {
  EXPECT_EQ(FirstIn(std::vector<std::uint32_t>(64, 0xffffffffU), NumberFormat::kByte),
            std::nullopt);
}

}  // namespace
}  // namespace foretrain

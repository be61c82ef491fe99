#include "runtime/data/permutation.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace foretrain {
namespace {

TEST(Permutation, HasEachElementOnce) {
  for (std::int64_t n = 1; n <= 300; ++n) {
    const Permutation permutation(n, /*seed=*/7, /*stream=*/static_cast<std::uint64_t>(n));
    std::vector<int> seen(static_cast<std::size_t>(n), 0);
    for (std::int64_t i = 0; i < n; ++i) ++seen.at(static_cast<std::size_t>(permutation.At(i)));
    for (const int times : seen) ASSERT_EQ(times, 1) << n;
  }
  // One above a power of four, the most values outside.
  constexpr std::int64_t kLarge = (std::int64_t{1} << 18) + 1;
  const Permutation permutation(kLarge, 1, 2);
  std::vector<bool> seen(kLarge, false);
  for (std::int64_t i = 0; i < kLarge; ++i) {
    const auto at = static_cast<std::size_t>(permutation.At(i));
    ASSERT_FALSE(seen.at(at));
    seen[at] = true;
  }
}

TEST(Permutation, StaysInTheRangeOfHugeData) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  const Permutation permutation(kHuge, 3, 4);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, kHuge / 2, kHuge - 1}) {
    EXPECT_GE(permutation.At(i), 0);
    EXPECT_LT(permutation.At(i), kHuge);
  }
  EXPECT_NE(permutation.At(0), permutation.At(1));
}

// Over 24,000 seeds each of the 24 permutations of 4 elements is expected 1000 times. Chi square of
// 23 degrees of freedom passes 49.7 with a chance of 0.001.
TEST(Permutation, IsEachPermutationOfAFewElementsEquallyOften) {
  constexpr int kSeeds = 24'000;
  std::array<int, 256> counts{};
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Permutation permutation(4, static_cast<std::uint64_t>(seed), 0);
    std::size_t code = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      code = code * 4 + static_cast<std::size_t>(permutation.At(i));
    }
    ++counts.at(code);
  }
  double chi_square = 0;
  int kinds = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++kinds;
    chi_square += std::pow(count - 1000.0, 2) / 1000.0;
  }
  EXPECT_EQ(kinds, 24);
  EXPECT_LT(chi_square, 49.7);
}

// Distances of neighbours in a random order of n elements have the mean (n + 1) / 3 and the
// variance (n + 1)(n - 2) / 18; over 100,000 pairs, five standard errors are 0.4 % of n.
TEST(Permutation, SeparatesNeighboursAsARandomOrderDoes) {
  constexpr std::int64_t n = 100'000;
  const Permutation permutation(n, 11, 12);
  double sum = 0;
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    sum += static_cast<double>(std::llabs(permutation.At(i) - permutation.At(i + 1)));
  }
  EXPECT_NEAR(sum / static_cast<double>(n - 1), (n + 1) / 3.0, 0.004 * n);
}

}  // namespace
}  // namespace foretrain

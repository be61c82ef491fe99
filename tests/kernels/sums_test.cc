#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SquaredNormTest : public KernelTest {};

// Sums are in double precision: one rounding of the result to fp32, and one of the accumulated sum.
TEST_P(SquaredNormTest, EqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t n : {0, 1, 31, 32, 33, 65, 100'003}) {
    for (const bool accumulate : {false, true}) {
      const Floats x = Random(n, 1);
      Floats out(1, accumulate ? 5.0F : kNan);
      Run(api_.squared_norm, FtSquaredNorm{x.data(), out.data(), n, accumulate, FT_F32});
      const double expected = reference::SquaredNorm(ToDouble(x)) + (accumulate ? 5.0 : 0.0);
      ExpectClose(out, {expected}, {1.01 * kUnit * expected}, "norm");
    }
  }
}

// 2^26 plus many ones: a sum in fp32 would lose each of them.
TEST_P(SquaredNormTest, LosesNoSmallNumbersBesideALargeOne) {
  Floats x(100'000, 1.0F);
  x[0] = 8192.0F;  // its square is 2^26, whose fp32 neighbours are 8 apart
  float out = 0.0F;
  Run(api_.squared_norm, FtSquaredNorm{x.data(), &out, 100'000, 0, FT_F32});
  EXPECT_EQ(out, 67'108'864.0F + 100'000.0F);  // 99,999 more, rounded to a multiple of 8
}

TEST_P(SquaredNormTest, KeepsNan) {
  for (const std::size_t place : {0U, 40U, 69U}) {
    Floats x(70, 1.0F);
    x[place] = kNan;
    float out = 0.0F;
    Run(api_.squared_norm, FtSquaredNorm{x.data(), &out, 70, 0, FT_F32});
    EXPECT_TRUE(std::isnan(out)) << place;
  }
}

class SumRanksTest : public KernelTest {};

TEST_P(SumRanksTest, AddsInRankOrderToTheBit) {
  for (const std::int64_t n : kRaggedSizes) {
    std::vector<Floats> ranks;
    std::vector<const void*> sources;
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      ranks.push_back(Random(n, rank, rank == 2 ? 1e6F : 1.0F));
    }
    for (const Floats& rank : ranks) {
      sources.push_back(rank.data());
    }
    Floats expected = ranks[0];
    for (std::size_t rank = 1; rank < 5; ++rank) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += ranks[rank][i];
      }
    }
    Floats out(expected.size(), kNan);
    Run(api_.sum_ranks, FtSumRanks{sources.data(), out.data(), n, 5, 0, FT_F32});
    EXPECT_EQ(Bits(out), Bits(expected));
    Run(api_.sum_ranks, FtSumRanks{sources.data(), ranks[3].data(), n, 5, 0,
                                   FT_F32});  // writes to one of its sources
    EXPECT_EQ(Bits(ranks[3]), Bits(expected));
  }
}

TEST_P(SumRanksTest, OfOneRankIsACopy) {
  const Floats x = Random(33, 1);
  const void* source = x.data();
  Floats out(33, kNan);
  Run(api_.sum_ranks, FtSumRanks{&source, out.data(), 33, 1, 0, FT_F32});
  EXPECT_EQ(Bits(out), Bits(x));
}

FT_TEST_ALL_VARIANTS(SquaredNormTest);
FT_TEST_ALL_VARIANTS(SumRanksTest);

}  // namespace
}  // namespace foretrain::test

// Moving averages, and combinations of two tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numeric/number_formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

class CombineTest : public KernelTest {};

// A difference, a product and a sum of numbers below 2.
TEST_P(CombineTest, MovesAnAverageTowardsTheParameters) {
  for (const std::int64_t n : kRaggedSizes) {
    Floats average = Random(n, 1);
    const Floats param = Random(n, 2);
    Tensor expected = ToDouble(average);
    const float rate = 1e-3F;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += double{rate} * (double{param[i]} - expected[i]);
    }
    Run(api_.average, FtAverage{param.data(), average.data(), n, rate, FT_F32});
    ExpectClose(average, expected, {4.0 * kUnit}, "average");
  }
}

TEST_P(CombineTest, AveragesParametersInBf16) {
  const std::vector<std::uint16_t> param = {Bf16OfFloat(2.0F), Bf16OfFloat(-1.0F)};
  Floats average = {0.0F, 1.0F};
  Run(api_.average, FtAverage{param.data(), average.data(), 2, 0.25F, FT_BF16});
  EXPECT_EQ(average, (Floats{0.5F, 0.5F}));
}

// The factor of x has three rounding errors, then come two products and a sum.
TEST_P(CombineTest, ClipsOrNormalizesAndAdds) {
  for (const std::int64_t n : kRaggedSizes) {
    for (const float beta : {0.0F, 0.5F}) {
      for (const float squared_norm : {-1.0F, 0.25F, 25.0F}) {
        for (const float max_norm : {0.0F, 1.0F}) {
          Floats out = Random(n, 1);
          const Floats x = Random(n, 2);
          const double norm = std::sqrt(std::max(0.0, double{squared_norm}));
          const double factor = squared_norm < 0 ? 1
                                : max_norm == 0  ? 1 / (norm + 1e-7)
                                                 : std::min(1.0, 1.0 / (norm + 1e-6));
          Tensor expected = ToDouble(out);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i] = 1.5 * factor * double{x[i]} + double{beta} * expected[i];
          }
          Run(api_.combine,
              FtCombine{x.data(), out.data(), squared_norm < 0 ? nullptr : &squared_norm, n, 1.5F,
                        beta, max_norm, FT_F32});
          ExpectClose(out, expected, {8.0 * 4.0 * kUnit}, "out");
        }
      }
    }
  }
}

TEST_P(CombineTest, LeavesTheResultAsItWasWhereTheNormIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t n : kRaggedSizes) {
    for (const float squared_norm : {std::nanf(""), infinity}) {
      const Floats x = Random(n, 2), before = Random(n, 1);
      Floats out = before;
      Run(api_.combine,
          FtCombine{x.data(), out.data(), &squared_norm, n, 1.5F, 0.5F, /*max_norm=*/1.0F, FT_F32});
      EXPECT_EQ(out, before);
    }
  }
}

TEST_P(CombineTest, ReadsNothingOfTheResultWithBetaZero) {
  const Floats x = {2.0F};
  Floats out = {std::nanf("")};
  Run(api_.combine, FtCombine{x.data(), out.data(), nullptr, 1, 0.5F, 0.0F, 0.0F, FT_F32});
  EXPECT_EQ(out[0], 1.0F);
}

FT_TEST_ALL_VARIANTS(CombineTest);

}  // namespace
}  // namespace foretrain::test

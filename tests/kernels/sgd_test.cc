#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

class SgdTest : public KernelTest {};

// p - lr * 0.1 * p - lr * factor * g with lr = 0.01: a product, a difference and a fused pair each.
// This makes 4 rounding errors of numbers below 1.1.
TEST_P(SgdTest, EqualsItsFormulaAtRaggedSizes) {
  for (const std::int64_t n : kRaggedSizes) {
    for (const float squared_norm : {-1.0F, 0.25F, 25.0F}) {
      Floats param = Random(n, 1);
      const Floats grad = Random(n, 2);
      Tensor expected = ToDouble(param);
      const double clip =
          squared_norm < 0 ? 1.0 : std::min(1.0, 1.0 / (std::sqrt(double{squared_norm}) + 1e-6));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double decay = i < static_cast<std::size_t>(n / 2) ? 0.01 * 0.1 : 0.0;
        expected[i] -= decay * expected[i] + 0.01 * clip / 8.0 * double{grad[i]};
      }
      const float scaled_norm = squared_norm * 64.0F;
      FtSgd g{};
      g.param = param.data();
      g.grad = grad.data();
      g.squared_norm = squared_norm < 0 ? nullptr : &scaled_norm;
      g.elements = n;
      g.decayed = n / 2;
      g.lr = 1e-2F;
      g.weight_decay = 0.1F;
      g.max_norm = 1.0F;
      g.loss_scale = 8.0F;
      g.dtype = FT_F32;
      Run(api_.sgd, g);
      ExpectClose(param, expected, {8.0 * kUnit}, "param");
      const Floats before = param;
      const float infinite = 1.0F;
      g.not_finite = &infinite;
      Run(api_.sgd, g);
      EXPECT_EQ(Bits(param), Bits(before));
    }
  }
}

// Amends p - lr g to p - lr g / 5, then reverts to p.
TEST_P(SgdTest, AmendsAndTakesBack) {
  const float small = 0.04F, large = 25.0F, some = 1.0F;
  for (const std::int64_t n : kRaggedSizes) {
    FtSgd g{};
    Floats param = Random(n, 1), twin = param;
    const Floats grad = Random(n, 2), before = param;
    g.grad = grad.data();
    g.elements = n;
    g.decayed = n / 2;
    g.lr = 0.1F;
    g.weight_decay = 0.1F;
    g.max_norm = 1.0F;
    g.dtype = FT_F32;
    g.param = twin.data();
    g.squared_norm = &large;
    Run(api_.sgd, g);
    g.param = param.data();
    g.squared_norm = &small;
    Run(api_.sgd, g);
    g.squared_norm = &large;
    Run(api_.sgd_amend, FtSgdAmend{g, &small, nullptr});
    ExpectClose(param, ToDouble(twin), {8.0 * kUnit}, "amended");
    g.not_finite = &some;
    Run(api_.sgd_amend, FtSgdAmend{g, &large, nullptr});
    ExpectClose(param, ToDouble(before), {16.0 * kUnit}, "taken back");
  }
}

class NotFiniteTest : public KernelTest {};

TEST_P(NotFiniteTest, CountsInfinitiesAndNans) {
  for (const std::int64_t n : kRaggedSizes) {
    Floats x = Random(n, 1);
    float out = 5.0F;
    Run(api_.count_not_finite, FtCountNotFinite{x.data(), &out, n, 0, FT_F32});
    EXPECT_EQ(out, 0.0F);
    x.back() = -std::numeric_limits<float>::infinity();
    x.front() = std::numeric_limits<float>::quiet_NaN();
    out = 5.0F;
    Run(api_.count_not_finite, FtCountNotFinite{x.data(), &out, n, 1, FT_F32});
    EXPECT_EQ(out, n == 1 ? 6.0F : 7.0F);
  }
}

TEST_P(NotFiniteTest, CountsSkippedSteps) {
  float skipped = 2.0F;
  const float none = 0.0F, some = 7.0F;
  Run(api_.count_skipped, FtCountSkipped{&none, &skipped});
  EXPECT_EQ(skipped, 2.0F);
  Run(api_.count_skipped, FtCountSkipped{&some, &skipped});
  EXPECT_EQ(skipped, 3.0F);
}

FT_TEST_ALL_VARIANTS(SgdTest);
FT_TEST_ALL_VARIANTS(NotFiniteTest);

}  // namespace
}  // namespace foretrain::test

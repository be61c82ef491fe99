// Adafactor's update of one tensor against its formulas.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/numeric/number_formats.h"
#include "tests/kernels/reference/adafactor.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

class AdafactorTest : public KernelTest {};

struct Shape {
  std::int64_t rows, cols;
};

FtAdafactor CallOf(const Shape& s, Floats& param, const Floats& grad, Floats& rows, Floats& cols) {
  FtAdafactor g{};
  g.param = param.data(), g.grad = grad.data();
  g.moment1 = s.rows > 1 ? rows.data() : nullptr, g.moment2 = cols.data();
  g.rows = s.rows, g.cols = s.cols;
  g.lr = 1e-2F, g.weight_decay = 0.1F, g.max_norm = 1.0F;
  g.dtype = g.grad_dtype = FT_F32;
  return g;
}

// Three steps. The second has gradients a thousand times smaller, so that its update is large and
// is divided by its size. Moments are sums of at most 130 squares; an update is below 12 in size.
TEST_P(AdafactorTest, EqualsItsFormulas) {
  for (const Shape& s : {Shape{1, 1}, {1, 65}, {2, 1}, {33, 7}, {65, 130}}) {
    const auto all = s.rows * s.cols;
    for (const float squared_norm : {-1.0F, 16.0F}) {
      Floats param = Random(all, 1), rows(static_cast<std::size_t>(s.rows), 0.0F),
             cols(static_cast<std::size_t>(s.cols), 0.0F);
      reference::AdafactorState expected{.rows = static_cast<std::size_t>(s.rows),
                                         .param = ToDouble(param)};
      for (int step = 1; step <= 3; ++step) {
        const Floats grad =
            Random(all, static_cast<std::uint32_t>(10 + step), step == 2 ? 1e-3F : 1.0F);
        FtAdafactor g = CallOf(s, param, grad, rows, cols);
        g.step = step;
        g.decays = s.rows > 1 ? 1 : 0;
        g.squared_norm = squared_norm < 0 ? nullptr : &squared_norm;
        Run(api_.adafactor, g);
        const reference::AdafactorSettings settings{
            .lr = double{g.lr},
            .weight_decay = g.decays != 0 ? double{g.weight_decay} : 0.0,
            .clip = squared_norm < 0 ? 1.0 : 1.0 / (4.0 + 1e-6)};
        reference::Adafactor(settings, step, grad, expected);
        const std::string what = std::to_string(s.rows) + " x " + std::to_string(s.cols) +
                                 ", step " + std::to_string(step);
        if (s.rows > 1) {
          ExpectClose(rows, expected.row_moments, Scaled(expected.row_moments, 80 * kUnit), what);
        }
        ExpectClose(cols, expected.col_moments, Scaled(expected.col_moments, 80 * kUnit), what);
        ExpectClose(param, expected.param, {64 * kUnit}, what);
      }
    }
  }
}

// By hand, from parameters 3 and 4 (root mean square 3.5355) and gradients 0.3 and -0.4: the first
// moments are the squares themselves, so u is 1 and -1 with size 1. alpha = 3.5355 * 0.01.
TEST_P(AdafactorTest, TakesAFirstStepOfTheSizeOfTheParameters) {
  Floats param = {3.0F, 4.0F}, cols(2, 0.0F), rows;
  const Floats grad = {0.3F, -0.4F};
  FtAdafactor g = CallOf({1, 2}, param, grad, rows, cols);
  g.step = 1;
  Run(api_.adafactor, g);
  EXPECT_NEAR(param[0], 3.0 - 0.035355339, 1e-6);
  EXPECT_NEAR(param[1], 4.0 + 0.035355339, 1e-6);
  // At step 10,000 1 / sqrt(t) is 0.01 too; at 40,000 it is half as much.
  EXPECT_NEAR(cols[0], 0.09F, 1e-7);
}

// Small parameters count as 1e-3 in size, and gradients of zero leave them.
TEST_P(AdafactorTest, MovesSmallParametersByAThousandth) {
  Floats param = {0.0F, 0.0F}, cols(2, 0.0F), rows;
  Floats grad = {2.0F, -2.0F};
  FtAdafactor g = CallOf({1, 2}, param, grad, rows, cols);
  g.step = 1;
  Run(api_.adafactor, g);
  EXPECT_NEAR(param[0], -1e-5, 1e-10);
  EXPECT_NEAR(param[1], 1e-5, 1e-10);
  Floats still = {0.5F, 0.25F}, no_moments(2, 0.0F);
  grad = {0.0F, 0.0F};
  g = CallOf({1, 2}, still, grad, rows, no_moments);
  g.step = 1;
  Run(api_.adafactor, g);
  EXPECT_EQ(still, (Floats{0.5F, 0.25F}));
}

TEST_P(AdafactorTest, WritesNothingIfTheNormIsNotFinite) {
  Floats param = Random(12, 1), rows(3, 0.5F), cols(4, 0.25F);
  const Floats before = param, grad = Random(12, 2);
  FtAdafactor g = CallOf({3, 4}, param, grad, rows, cols);
  g.step = 2;
  for (const float norm :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    g.squared_norm = &norm;
    Run(api_.adafactor, g);
    EXPECT_EQ(param, before);
    EXPECT_EQ(rows, Floats(3, 0.5F));
    EXPECT_EQ(cols, Floats(4, 0.25F));
  }
}

// Weights are the parameters rounded once; parameters of 16 bits are the fp32 result rounded once.
TEST_P(AdafactorTest, WritesShortWeights) {
  Floats wide = Random(12, 1), rows(3, 0.0F), cols(4, 0.0F);
  std::vector<std::uint16_t> weights(12, 0), narrow;
  for (float& x : wide) {
    narrow.push_back(Bf16OfFloat(x));
    x = FloatOfBf16(narrow.back());
  }
  const Floats grad = Random(12, 2);
  FtAdafactor g = CallOf({3, 4}, wide, grad, rows, cols);
  g.step = 1;
  g.weights = weights.data(), g.weights_dtype = FT_BF16;
  Run(api_.adafactor, g);
  Floats other_rows(3, 0.0F), other_cols(4, 0.0F);
  FtAdafactor alone = CallOf({3, 4}, wide, grad, other_rows, other_cols);
  alone.param = narrow.data(), alone.dtype = FT_BF16;
  alone.step = 1;
  Run(api_.adafactor, alone);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(weights[i], Bf16OfFloat(wide[i])) << i;
    EXPECT_EQ(narrow[i], weights[i]) << i;
  }
}

FT_TEST_ALL_VARIANTS(AdafactorTest);

}  // namespace
}  // namespace foretrain::test

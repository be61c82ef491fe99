// Adafactor's update of one tensor against its formulas: whole, and in parts as ranks hold them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "base/numeric/number_formats.h"
#include "tests/kernels/reference/adafactor.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

// rows x cols elements of a tensor from (row, col) on. A matrix is stored part after part.
struct Part {
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;
};

// A tensor and its moments.
struct Tensor2d {
  std::int64_t rows, cols;
  std::vector<Part> parts{{0, 0, rows, cols}};
  Floats row_moments = Floats(static_cast<std::size_t>(rows), 0.0F);
  Floats col_moments = Floats(static_cast<std::size_t>(cols), 0.0F);

  // Element of the whole tensor of each stored element.
  std::vector<std::size_t> Order() const {
    std::vector<std::size_t> order;
    for (const Part& p : parts) {
      for (std::int64_t i = 0; i < p.rows * p.cols; ++i) {
        const std::int64_t row = p.row + i / p.cols, col = p.col + i % p.cols;
        order.push_back(static_cast<std::size_t>(row * cols + col));
      }
    }
    return order;
  }
};

// Settings that most tests share; param and grad are those of all parts.
FtAdafactor CallOf(Floats& param, const Floats& grad) {
  FtAdafactor g{};
  g.param = param.data(), g.grad = grad.data();
  g.lr = 1e-2F, g.weight_decay = 0.1F, g.max_norm = 1.0F, g.step = 1;
  g.dtype = g.grad_dtype = FT_F32;
  return g;
}

class AdafactorTest : public KernelTest {
 protected:
  // One step of a tensor, part by part, as ranks take it together.
  void Step(Tensor2d& tensor, const FtAdafactor& call) {
    Floats row_sums(tensor.row_moments.size(), 0.0F), col_sums(tensor.col_moments.size(), 0.0F);
    float param_squares = 0.0F, row_mean = 0.0F, update_squares = 0.0F;
    const bool is_matrix = tensor.rows > 1;
    ForEach(tensor, call, [&](const Part& part, const FtAdafactor& g) {
      FtFactorSums sums{};
      sums.param = g.param, sums.grad = g.grad;
      sums.row_sums = is_matrix ? row_sums.data() + part.row : nullptr;
      sums.col_sums = col_sums.data() + part.col, sums.param_squares = &param_squares;
      sums.squared_norm = g.squared_norm, sums.max_norm = g.max_norm;
      sums.rows = part.rows, sums.cols = part.cols;
      sums.dtype = g.dtype, sums.grad_dtype = g.grad_dtype;
      Run(api_.factor_sums, sums);
    });
    FtFactorMoments moments{};
    moments.row_sums = is_matrix ? row_sums.data() : nullptr, moments.col_sums = col_sums.data();
    moments.moment1 = is_matrix ? tensor.row_moments.data() : nullptr;
    moments.moment2 = tensor.col_moments.data(), moments.row_mean = &row_mean;
    moments.squared_norm = call.squared_norm;
    moments.rows = tensor.rows, moments.cols = tensor.cols, moments.step = call.step;
    Run(api_.factor_moments, moments);
    for (const bool updates : {false, true}) {
      ForEach(tensor, call, [&](const Part& part, FtAdafactor g) {
        g.moment1 = is_matrix ? tensor.row_moments.data() + part.row : nullptr;
        g.moment2 = tensor.col_moments.data() + part.col;
        g.row_mean = &row_mean, g.param_squares = &param_squares;
        g.update_squares = &update_squares;
        Run(updates ? api_.adafactor : api_.factor_size, g);
      });
    }
  }

 private:
  // Calls take(part, arguments) with the addresses of each part.
  template <class Take>
  static void ForEach(const Tensor2d& tensor, const FtAdafactor& call, const Take& take) {
    std::int64_t first = 0;
    for (const Part& part : tensor.parts) {
      FtAdafactor g = call;
      const auto bytes = [](FtDtype dtype) { return dtype == FT_F32 ? 4 : 2; };
      g.param = static_cast<std::byte*>(call.param) + first * bytes(call.dtype);
      g.grad = static_cast<const std::byte*>(call.grad) + first * bytes(call.grad_dtype);
      if (call.weights != nullptr) {
        g.weights = static_cast<std::byte*>(call.weights) + first * bytes(call.weights_dtype);
      }
      g.rows = part.rows, g.cols = part.cols, g.inner = tensor.rows * tensor.cols;
      take(part, g);
      first += part.rows * part.cols;
    }
  }
};

const Tensor2d kTensors[] = {
    {1, 1},
    {1, 65},
    {2, 1},
    {33, 7},
    {65, 130},
    // Rows on two ranks, columns on two ranks, and shards that end within rows.
    {33, 7, {{0, 0, 20, 7}, {20, 0, 13, 7}}},
    {33, 70, {{0, 0, 33, 41}, {0, 41, 33, 29}}},
    {9,
     70,
     {{0, 0, 1, 70}, {1, 0, 1, 3}, {1, 3, 1, 67}, {2, 0, 6, 70}, {8, 0, 1, 5}, {8, 5, 1, 65}}},
    {1, 65, {{0, 0, 1, 16}, {0, 16, 1, 49}}},
};

// Three steps. The second has gradients a thousand times smaller, so that its update is large and
// is divided by its size. Moments are sums of at most 130 squares; an update is below 12 in size.
TEST_P(AdafactorTest, EqualsItsFormulas) {
  for (const Tensor2d& kind : kTensors) {
    const auto all = kind.rows * kind.cols;
    const std::vector<std::size_t> order = kind.Order();
    ASSERT_EQ(std::ssize(order), all);
    for (const float squared_norm : {-1.0F, 16.0F}) {
      Tensor2d tensor = kind;
      Floats param = Random(all, 1);
      reference::AdafactorState expected{.rows = static_cast<std::size_t>(kind.rows),
                                         .param = Tensor(order.size())};
      for (std::size_t i = 0; i < order.size(); ++i) expected.param[order[i]] = param[i];
      for (int step = 1; step <= 3; ++step) {
        const Floats grad =
            Random(all, static_cast<std::uint32_t>(10 + step), step == 2 ? 1e-3F : 1.0F);
        Floats in_order(grad.size());
        for (std::size_t i = 0; i < order.size(); ++i) in_order[order[i]] = grad[i];
        FtAdafactor g = CallOf(param, grad);
        g.step = step;
        g.decays = kind.rows > 1 ? 1 : 0;
        g.squared_norm = squared_norm < 0 ? nullptr : &squared_norm;
        Step(tensor, g);
        const reference::AdafactorSettings settings{
            .lr = double{g.lr},
            .weight_decay = g.decays != 0 ? double{g.weight_decay} : 0.0,
            .clip = squared_norm < 0 ? 1.0 : 1.0 / (4.0 + 1e-6)};
        reference::Adafactor(settings, step, in_order, expected);
        const std::string what = std::to_string(kind.rows) + " x " + std::to_string(kind.cols) +
                                 " in " + std::to_string(kind.parts.size()) + ", step " +
                                 std::to_string(step);
        if (kind.rows > 1) {
          ExpectClose(tensor.row_moments, expected.row_moments,
                      Scaled(expected.row_moments, 80 * kUnit), what);
        }
        ExpectClose(tensor.col_moments, expected.col_moments,
                    Scaled(expected.col_moments, 80 * kUnit), what);
        Tensor updated;
        for (const std::size_t at : order) updated.push_back(expected.param[at]);
        ExpectClose(param, updated, {64 * kUnit}, what);
      }
    }
  }
}

// By hand, from parameters 3 and 4 (root mean square 3.5355) and gradients 0.3 and -0.4: the first
// moments are the squares themselves, so u is 1 and -1 with size 1. alpha = 3.5355 * 0.01.
TEST_P(AdafactorTest, TakesAFirstStepOfTheSizeOfTheParameters) {
  Floats param = {3.0F, 4.0F};
  const Floats grad = {0.3F, -0.4F};
  Tensor2d tensor{1, 2};
  Step(tensor, CallOf(param, grad));
  EXPECT_NEAR(param[0], 3.0 - 0.035355339, 1e-6);
  EXPECT_NEAR(param[1], 4.0 + 0.035355339, 1e-6);
  EXPECT_NEAR(tensor.col_moments[0], 0.09F, 1e-7);
}

// Small parameters count as 1e-3 in size, and gradients of zero leave them.
TEST_P(AdafactorTest, MovesSmallParametersByAThousandth) {
  Floats param = {0.0F, 0.0F};
  Floats grad = {2.0F, -2.0F};
  Tensor2d tensor{1, 2};
  Step(tensor, CallOf(param, grad));
  EXPECT_NEAR(param[0], -1e-5, 1e-10);
  EXPECT_NEAR(param[1], 1e-5, 1e-10);
  Floats still = {0.5F, 0.25F};
  grad = {0.0F, 0.0F};
  Tensor2d other{1, 2};
  Step(other, CallOf(still, grad));
  EXPECT_EQ(still, (Floats{0.5F, 0.25F}));
}

TEST_P(AdafactorTest, WritesNothingIfTheNormIsNotFinite) {
  Floats param = Random(12, 1);
  Tensor2d tensor{3, 4};
  tensor.row_moments.assign(3, 0.5F), tensor.col_moments.assign(4, 0.25F);
  const Floats before = param, grad = Random(12, 2);
  FtAdafactor g = CallOf(param, grad);
  g.step = 2;
  for (const float norm :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    g.squared_norm = &norm;
    Step(tensor, g);
    EXPECT_EQ(param, before);
    EXPECT_EQ(tensor.row_moments, Floats(3, 0.5F));
    EXPECT_EQ(tensor.col_moments, Floats(4, 0.25F));
  }
}

// Weights are the parameters rounded once; parameters of 16 bits are the fp32 result rounded once.
TEST_P(AdafactorTest, WritesShortWeights) {
  Floats wide = Random(12, 1);
  std::vector<std::uint16_t> weights(12, 0), narrow;
  for (float& x : wide) {
    narrow.push_back(Bf16OfFloat(x));
    x = FloatOfBf16(narrow.back());
  }
  const Floats grad = Random(12, 2);
  FtAdafactor g = CallOf(wide, grad);
  FtAdafactor alone = g;
  g.weights = weights.data(), g.weights_dtype = FT_BF16;
  alone.param = narrow.data(), alone.dtype = FT_BF16;
  Tensor2d tensor{3, 4}, other{3, 4};
  Step(tensor, g);
  Step(other, alone);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(weights[i], Bf16OfFloat(wide[i])) << i;
    EXPECT_EQ(narrow[i], weights[i]) << i;
  }
}

// Gradients and parameters of 16 bits count as the fp32 numbers that they stand for: the moments
// are equal, and the result is rounded once. In parts, so that ranges begin at odd elements.
TEST_P(AdafactorTest, TakesShortTensors) {
  for (const FtDtype dtype : {FT_BF16, FT_F16}) {
    const auto round = [&](float x) { return dtype == FT_BF16 ? Bf16OfFloat(x) : Fp16OfFloat(x); };
    const auto wide = [&](std::uint16_t x) {
      return dtype == FT_BF16 ? FloatOfBf16(x) : FloatOfFp16(x);
    };
    Floats param = Random(9 * 21, 1), grad = Random(9 * 21, 2);
    std::vector<std::uint16_t> short_param, short_grad;
    for (std::size_t i = 0; i < param.size(); ++i) {
      short_param.push_back(round(param[i])), short_grad.push_back(round(grad[i]));
      param[i] = wide(short_param[i]), grad[i] = wide(short_grad[i]);
    }
    Tensor2d tensor{9, 21, {{0, 0, 1, 21}, {1, 0, 1, 4}, {1, 4, 1, 17}, {2, 0, 7, 21}}};
    Tensor2d other = tensor;
    const FtAdafactor g = CallOf(param, grad);
    FtAdafactor narrow = g;
    narrow.param = short_param.data(), narrow.grad = short_grad.data();
    narrow.dtype = narrow.grad_dtype = dtype;
    Step(tensor, g);
    Step(other, narrow);
    EXPECT_EQ(other.row_moments, tensor.row_moments);
    EXPECT_EQ(other.col_moments, tensor.col_moments);
    for (std::size_t i = 0; i < param.size(); ++i) EXPECT_EQ(short_param[i], round(param[i])) << i;
  }
}

FT_TEST_ALL_VARIANTS(AdafactorTest);

}  // namespace
}  // namespace foretrain::test

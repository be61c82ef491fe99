#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kEpsilon = 1e-5F;
const std::vector<std::int64_t> kCols = {1, 31, 32, 33, 65, 257};

double Largest(const Tensor& x) {
  double most = 0.0;
  for (const double v : x) {
    most = std::max(most, std::abs(v));
  }
  return most;
}

// The inputs of one norm and the results of its reference. x is in [-1, 1], moved by `shift`.
struct NormCase {
  std::int64_t rows, cols;
  bool rms;
  Floats x, weight, bias, dy;
  reference::NormShape shape;
  reference::NormOutputs out;
  reference::NormGrads grads;
  Floats mean, rstd;  // rounded to fp32, as the backward kernels get them

  NormCase(std::int64_t rows_, std::int64_t cols_, bool rms_, float shift = 0.25F)
      : rows(rows_),
        cols(cols_),
        rms(rms_),
        x(Random(rows * cols, 1)),
        weight(Random(cols, 2)),
        bias(Random(cols, 3)),
        dy(Random(rows * cols, 4)),
        shape{.cols = cols, .epsilon = double{kEpsilon}, .rms = rms} {
    for (float& v : x) {
      v += shift;
    }
    out = reference::NormForward(shape, ToDouble(x), ToDouble(weight), ToDouble(bias));
    mean = Floats(out.mean.begin(), out.mean.end());
    rstd = Floats(out.rstd.begin(), out.rstd.end());
    grads = reference::NormBackward(shape, ToDouble(dy), ToDouble(x), ToDouble(weight),
                                    ToDouble(mean), ToDouble(rstd));
  }
  std::string Name() const {
    return std::to_string(rows) + "x" + std::to_string(cols) + (rms ? " rms" : " layer");
  }
};

class NormTest : public KernelTest {
 protected:
  // Relative errors for a row with n columns, with R as Roundings. The mean is a sum and has R(n +
  // 1) * 1.25, as |x| <= 1.25. Each deviation has as much plus its own rounding. The variance has
  // R(n + 2) from its sum and 2 R(n + 1) * 1.25 / deviation from its terms. rstd has half of that
  // plus 3 units, y a deviation times rstd plus 3 units. A column of 1 has deviation 0 and rstd 1 /
  // sqrt(epsilon) = 316, which magnifies the mean's error; so rstd is a factor.
  static double Factor(const NormCase& c) {
    return (3.0 * Roundings(c.cols + 2) + 8.0 * kUnit) * Largest(c.out.rstd);
  }

  void CheckForward(const NormCase& c) {
    SCOPED_TRACE(c.Name());
    Floats y(c.x.size(), kNan);
    Floats mean(static_cast<std::size_t>(c.rows), kNan);
    Floats rstd = mean;
    Run(api_.norm_forward, FtNormForward{.x = c.x.data(),
                                         .weight = c.weight.data(),
                                         .bias = c.rms ? nullptr : c.bias.data(),
                                         .y = y.data(),
                                         .mean = c.rms ? nullptr : mean.data(),
                                         .rstd = rstd.data(),
                                         .rows = c.rows,
                                         .cols = c.cols,
                                         .epsilon = kEpsilon,
                                         .rms = c.rms,
                                         .dtype = FT_F32,
                                         .weight_dtype = FT_F32});
    const double bound = Factor(c) * 1.25 * (1.0 + Largest(c.out.y));
    ExpectClose(y, c.out.y, {bound}, "y");
    ExpectClose(rstd, c.out.rstd, {bound * Largest(c.out.rstd)}, "rstd");
    if (!c.rms) {
      ExpectClose(mean, c.out.mean, {Roundings(c.cols + 1) * 1.25}, "mean");
    }
  }

  // dx = rstd (a - mean a - normal * mean(a normal)), with |a| <= 1 and normal = (x - mean) rstd of
  // mean square 1. Both means are sums of n terms with a mean size of at most 1; the second is
  // multiplied by normal.
  static Tensor BackwardBound(const NormCase& c) {
    double normal = 0.0;
    for (const float v : c.x) {
      for (std::size_t row = 0; row < c.rstd.size(); ++row) {
        const double mean = c.rms ? 0.0 : c.out.mean[row];
        normal = std::max(normal, std::abs(static_cast<double>(v) - mean) * c.out.rstd[row]);
      }
    }
    return {(Roundings(c.cols + 6) * (1.0 + normal) + 8.0 * kUnit * (2.0 + normal)) *
            Largest(c.out.rstd)};
  }

  Floats BackwardInput(const NormCase& c, const Floats& residual, Floats dx) {
    Run(api_.norm_backward_input,
        FtNormBackwardInput{.dy = c.dy.data(),
                            .x = c.x.data(),
                            .weight = c.weight.data(),
                            .mean = c.rms ? nullptr : c.mean.data(),
                            .rstd = c.rstd.data(),
                            .residual = residual.empty() ? nullptr : residual.data(),
                            .dx = dx.data(),
                            .rows = c.rows,
                            .cols = c.cols,
                            .rms = c.rms,
                            .dtype = FT_F32,
                            .weight_dtype = FT_F32});
    return dx;
  }
};

TEST_P(NormTest, ForwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t cols : kCols) {
    for (const std::int64_t rows : {1, 33}) {
      CheckForward({rows, cols, false});
      CheckForward({rows, cols, true});
    }
  }
}

// Inputs around 1000 +- 1. A variance computed as mean(x^2) - mean^2 would be lost (1e6 * unit is
// 0.06).
TEST_P(NormTest, KeepsTheVarianceOfNumbersFarFromZero) {
  const NormCase c(3, 128, false, 1000.0F);
  Floats y(c.x.size());
  Floats mean(3);
  Floats rstd(3);
  Run(api_.norm_forward,
      FtNormForward{c.x.data(), c.weight.data(), c.bias.data(), y.data(), mean.data(), rstd.data(),
                    3, 128, kEpsilon, 0, FT_F32, FT_F32});
  // The mean of 128 numbers near 1000 has at most 128 / 64 lanes + 8 rounding errors of 1001, 6e-4.
  // The variance (near 1/3) contains its square, each deviation contains it once: 6e-4 * rstd.
  ExpectClose(rstd, c.out.rstd, Scaled(c.out.rstd, 1e-4), "rstd");
  ExpectClose(y, c.out.y, {6e-4 * Largest(c.out.rstd)}, "y");
}

TEST_P(NormTest, BackwardInputEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t cols : kCols) {
    for (const bool rms : {false, true}) {
      const NormCase c(5, cols, rms);
      SCOPED_TRACE(c.Name());
      ExpectClose(BackwardInput(c, {}, Floats(c.x.size(), kNan)), c.grads.x, BackwardBound(c),
                  "dx");
    }
  }
}

TEST_P(NormTest, BackwardInputAddsTheResidualAlsoInPlace) {
  const NormCase c(5, 65, false);
  const Floats residual = Random(5 * 65, 9);
  Tensor expected = c.grads.x;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] += static_cast<double>(residual[i]);
  }
  const Floats apart = BackwardInput(c, residual, Floats(residual.size(), kNan));
  ExpectClose(apart, expected, BackwardBound(c), "dx");
  Floats in_place = residual;
  Run(api_.norm_backward_input,
      FtNormBackwardInput{c.dy.data(), c.x.data(), c.weight.data(), c.mean.data(), c.rstd.data(),
                          in_place.data(), in_place.data(), 5, 65, 0, FT_F32, FT_F32});
  EXPECT_EQ(Bits(in_place), Bits(apart));
}

// Tolerance: a sum over rows of products of three numbers, with three rounding errors per product.
TEST_P(NormTest, BackwardWeightEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t cols : kCols) {
    for (const std::int64_t rows : {1, 31, 33, 65}) {
      for (const int mode : {0, 1, 2, 3}) {
        const bool rms = (mode & 1) != 0;
        const bool accumulate = (mode & 2) != 0;
        const NormCase c(rows, cols, rms);
        SCOPED_TRACE(c.Name());
        const Floats old =
            accumulate ? Random(cols, 7) : Floats(static_cast<std::size_t>(cols), kNan);
        Floats weight = old;
        Floats bias = old;
        Run(api_.norm_backward_weight,
            FtNormBackwardWeight{.dy = c.dy.data(),
                                 .x = c.x.data(),
                                 .mean = rms ? nullptr : c.mean.data(),
                                 .rstd = c.rstd.data(),
                                 .weight_grad = weight.data(),
                                 .bias_grad = rms ? nullptr : bias.data(),
                                 .rows = rows,
                                 .cols = cols,
                                 .rms = rms,
                                 .accumulate = accumulate,
                                 .dtype = FT_F32,
                                 .grad_dtype = FT_F32});
        Tensor expected = c.grads.weight;
        Tensor expected_bias = c.grads.bias;
        for (std::size_t i = 0; accumulate && i < old.size(); ++i) {
          expected[i] += static_cast<double>(old[i]);
          if (!rms) {
            expected_bias[i] += static_cast<double>(old[i]);
          }
        }
        // Sizes of the terms.
        const double sum = static_cast<double>(rows) * 2.25 * Largest(c.out.rstd) + 1.0;
        const double bound = Roundings(rows + 5) * sum;
        ExpectClose(weight, expected, {bound}, "weight");
        if (!rms) {
          ExpectClose(bias, expected_bias, {bound}, "bias");
        }
      }
    }
  }
}

TEST_P(NormTest, CarriesNanToItsRowAndNoOther) {
  NormCase c(3, 65, false);
  c.x[65 + 64] = kNan;
  Floats y(c.x.size());
  Floats mean(3);
  Floats rstd(3);
  Run(api_.norm_forward,
      FtNormForward{c.x.data(), c.weight.data(), c.bias.data(), y.data(), mean.data(), rstd.data(),
                    3, 65, kEpsilon, 0, FT_F32, FT_F32});
  const Floats dx = BackwardInput(c, {}, Floats(c.x.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), i / 65 == 1) << i;
    EXPECT_EQ(std::isnan(dx[i]), i / 65 == 1) << i;
  }
}

TEST(NormReference, BackwardIsTheDifferenceGradient) {
  for (const bool rms : {false, true}) {
    const reference::NormShape shape{.cols = 7, .epsilon = 1e-5, .rms = rms};
    const Tensor x = ToDouble(Random(21, 1));
    const Tensor weight = ToDouble(Random(7, 2));
    const Tensor bias = ToDouble(Random(7, 3));
    const Tensor dy = ToDouble(Random(21, 4));
    const reference::NormOutputs out = reference::NormForward(shape, x, weight, bias);
    const reference::NormGrads grads =
        reference::NormBackward(shape, dy, x, weight, out.mean, out.rstd);
    ExpectGradient(
        grads.x, x,
        [&](const Tensor& v) { return Dot(reference::NormForward(shape, v, weight, bias).y, dy); },
        "x");
    ExpectGradient(
        grads.weight, weight,
        [&](const Tensor& v) { return Dot(reference::NormForward(shape, x, v, bias).y, dy); },
        "weight");
    if (!rms) {
      ExpectGradient(
          grads.bias, bias,
          [&](const Tensor& v) { return Dot(reference::NormForward(shape, x, weight, v).y, dy); },
          "bias");
    }
  }
}

// Compares with the two separate kernels bit by bit; these are compared with the reference above.
TEST_P(NormTest, SumAndNormInOneEqualTheTwoToTheBit) {
  for (const std::int64_t cols : kRaggedSizes) {
    for (const bool rms : {false, true}) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(cols);
        const auto n = static_cast<std::size_t>(3 * cols);
        const Floats a = Random(3 * cols, 1), b = Random(3 * cols, 2), weight = Random(cols, 3);
        const Floats add_bias = Random(cols, 4), norm_bias = Random(cols, 5);
        Floats sum(n, kNan), y(n, kNan), mean(3, kNan), rstd(3, kNan);
        Run(api_.add, FtAdd{a.data(), b.data(), bias ? add_bias.data() : nullptr, sum.data(), 3,
                            cols, FT_F32, FT_F32});
        Run(api_.norm_forward,
            FtNormForward{sum.data(), weight.data(), rms ? nullptr : norm_bias.data(), y.data(),
                          rms ? nullptr : mean.data(), rstd.data(), 3, cols, kEpsilon, rms, FT_F32,
                          FT_F32});
        Floats in_place = a, fused_y(n, kNan), fused_mean(3, kNan), fused_rstd(3, kNan);
        Run(api_.add_norm_forward,
            FtAddNormForward{in_place.data(), b.data(), bias ? add_bias.data() : nullptr,
                             weight.data(), rms ? nullptr : norm_bias.data(), in_place.data(),
                             fused_y.data(), rms ? nullptr : fused_mean.data(), fused_rstd.data(),
                             3, cols, kEpsilon, rms, FT_F32, FT_F32});
        EXPECT_EQ(Bits(in_place), Bits(sum));
        EXPECT_EQ(Bits(fused_y), Bits(y));
        EXPECT_EQ(Bits(fused_mean), Bits(mean));
        EXPECT_EQ(Bits(fused_rstd), Bits(rstd));
      }
    }
  }
}

FT_TEST_ALL_VARIANTS(NormTest);

}  // namespace
}  // namespace foretrain::test

#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// -12 to 12 in steps of 0.0007, then tiny numbers.
Floats Sweep() {
  Floats x;
  for (int i = 0; i < 34'287; ++i) {
    x.push_back(-12.0F + 0.0007F * static_cast<float>(i));
  }
  x.insert(x.end(), {0.0F, -0.0F, 1e-30F, -1e-30F, 1e-4F, -1e-4F});
  return x;
}

class GeluTest : public KernelTest {
 protected:
  Floats Forward(const Floats& x) {
    Floats y(x.size(), kNan);
    Run(api_.gelu_forward, FtGelu{x.data(), nullptr, y.data(), static_cast<std::int64_t>(x.size()),
                                  FT_F32, FT_GELU_TANH});
    return y;
  }
  Floats Backward(const Floats& x, const Floats& dy) {
    Floats dx(x.size(), kNan);
    Run(api_.gelu_backward, FtGelu{x.data(), dy.data(), dx.data(),
                                   static_cast<std::int64_t>(x.size()), FT_F32, FT_GELU_TANH});
    return dx;
  }
};

// Bound: y = x / (1 + e^-w) with w = 2u. w has 4 rounding errors, so e^-w has 4 |w| + 3 relative to
// its size. y has as many where e^-w is not small against 1, plus 3. |w| <= 1.6 |x| + 0.0714 |x|^3.
// Below e^-86.6, y is 0.
TEST_P(GeluTest, ForwardEqualsTheReference) {
  const Floats x = Sweep();
  const Tensor expected = reference::GeluForward(ToDouble(x));
  Tensor bound;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double size = std::abs(static_cast<double>(x[i]));
    const double w = 1.6 * size + 0.0714 * size * size * size;
    bound.push_back((4.0 * (x[i] < 0.0F ? w : 0.0) + 8.0) * kUnit * std::abs(expected[i]) + 1e-36);
  }
  ExpectClose(Forward(x), expected, bound, "gelu");
}

// Bound for s + x s (1 - s) w', absolute: s has 8 rounding errors (as above; |w| e^-w < 1), 1 - s
// as many, and |x w'| s (1 - s) < 1.2.
TEST_P(GeluTest, BackwardEqualsTheReference) {
  const Floats x = Sweep();
  const Floats dy = Random(static_cast<std::int64_t>(x.size()), 1);
  Tensor bound;
  for (const float v : x) {
    const double size = std::abs(static_cast<double>(v));
    bound.push_back((16.0 + 8.0 * (1.6 * size + 0.2142 * size * size * size)) * kUnit);
  }
  ExpectClose(Backward(x, dy), reference::GeluBackward(ToDouble(x), ToDouble(dy)), bound, "dgelu");
}

TEST_P(GeluTest, TakesRaggedSizesInPlace) {
  for (const std::int64_t n : kRaggedSizes) {
    const Floats x = Random(n, 1, 3.0F);
    const Floats dy = Random(n, 2);
    Floats in_place = dy;
    Run(api_.gelu_backward,
        FtGelu{x.data(), in_place.data(), in_place.data(), n, FT_F32, FT_GELU_TANH});
    EXPECT_EQ(Bits(in_place), Bits(Backward(x, dy)));
    // y has 30 rounding errors of numbers up to 3: see above with |x| <= 3.
    ExpectClose(Forward(x), reference::GeluForward(ToDouble(x)), {90.0 * kUnit}, "gelu");
  }
}

TEST_P(GeluTest, KeepsNanAndTheLimits) {
  const Floats x = {kNan, kInfinity, 1e20F, -1e20F, 30.0F, -30.0F};
  const Floats y = Forward(x);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], 1e20F);
  EXPECT_EQ(y[3], 0.0F);
  EXPECT_EQ(y[4], 30.0F);
  EXPECT_EQ(y[5], 0.0F);
  const Floats dx = Backward(x, Floats(6, 2.0F));
  EXPECT_TRUE(std::isnan(dx[0]));
  EXPECT_EQ(dx[1], 2.0F);
  EXPECT_EQ(dx[2], 2.0F);
  EXPECT_EQ(dx[3], 0.0F);
  EXPECT_EQ(dx[4], 2.0F);
  EXPECT_EQ(dx[5], 0.0F);
}

// An activation of FtGelu other than the tanh form: its value and slope in double precision.
struct Function {
  FtActivation activation;
  double (*value)(double);
  double (*slope)(double);
  // Error of value and slope relative to 1 + |x|. erfc has an error of 1.5e-7 (Abramowitz and
  // Stegun 7.1.26). The argument of e^(-x^2 / 2) is rounded: up to x^2 / 2 <= 72 units where the
  // exponential is 1e-31, and 1 unit where it matters.
  double bound;
};
double Normal(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
constexpr Function kFunctions[] = {
    {FT_GELU_ERF, [](double x) { return x * Normal(x); },
     [](double x) { return Normal(x) + x * std::exp(-x * x / 2) * 0.3989422804014327; },
     1.5e-7 + 16.0 * kUnit},
    {FT_RELU, [](double x) { return std::max(x, 0.0); }, [](double x) { return x > 0 ? 1.0 : 0.0; },
     0.0},
    {FT_SQUARED_RELU, [](double x) { return std::max(x, 0.0) * std::max(x, 0.0); },
     [](double x) { return 2 * std::max(x, 0.0); }, 12.0 * kUnit},
};

TEST_P(GeluTest, OtherFunctionsAreTheirs) {
  const Floats x = Sweep();
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy = Random(n, 1);
  for (const Function& f : kFunctions) {
    Tensor y, dx, bound;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = double{x[i]};
      y.push_back(f.value(v));
      dx.push_back(f.slope(v) * double{dy[i]});
      bound.push_back(f.bound * (1.0 + std::abs(v)) + kUnit * std::abs(dx.back()) + 1e-36);
    }
    Floats out(x.size(), kNan);
    Run(api_.gelu_forward, FtGelu{x.data(), nullptr, out.data(), n, FT_F32, f.activation});
    ExpectClose(out, y, bound, "value " + std::to_string(f.activation));
    Run(api_.gelu_backward, FtGelu{x.data(), dy.data(), out.data(), n, FT_F32, f.activation});
    ExpectClose(out, dx, bound, "slope " + std::to_string(f.activation));
    const Floats limits = {kNan, kInfinity, -kInfinity};
    Floats at(3);
    Run(api_.gelu_forward, FtGelu{limits.data(), nullptr, at.data(), 3, FT_F32, f.activation});
    EXPECT_TRUE(std::isnan(at[0]));
    EXPECT_EQ(at[1], kInfinity);
    EXPECT_EQ(at[2], 0.0F);
  }
}

// tanh has an error of 2 units of 1. Its slope of at most 1 covers the rounding of its argument.
TEST_P(GeluTest, SoftcapIsTheScaledTanh) {
  for (const float cap : {0.5F, 30.0F}) {
    Floats x = Sweep();
    x.insert(x.end(), {kInfinity, -kInfinity, 1e20F, -1e20F});
    Tensor expected;
    for (const float v : x) expected.push_back(double{cap} * std::tanh(double{v} / double{cap}));
    Run(api_.softcap, FtSoftcap{x.data(), static_cast<std::int64_t>(x.size()), cap, FT_F32});
    ExpectClose(x, expected, {8.0 * kUnit * double{cap}}, "softcap");
  }
}

class SwigluTest : public KernelTest {};

// gate * sigmoid(gate) * up with |gate| <= 8. The sigmoid has 8 + 6 rounding errors; two products
// follow.
TEST_P(SwigluTest, EqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t rows : {1, 3}) {
    for (const std::int64_t cols : kRaggedSizes) {
      const Floats x = Random(rows * 2 * cols, 1, 8.0F);
      const Floats dy = Random(rows * cols, 2);
      Floats y(dy.size(), kNan);
      Run(api_.swiglu_forward,
          FtSwiglu{x.data(), nullptr, y.data(), rows, cols, FT_F32, FT_GATE_SILU});
      const Tensor expected = reference::SwigluForward(cols, ToDouble(x));
      ExpectClose(y, expected, Scaled(expected, 17.0 * kUnit), "swiglu");
      Floats dx(x.size(), kNan);
      Run(api_.swiglu_backward,
          FtSwiglu{x.data(), dy.data(), dx.data(), rows, cols, FT_F32, FT_GATE_SILU});
      // d silu is below 1.1. It consists of s and x s (1 - s), at most 1 and 0.6, with 17 rounding
      // errors. up and gate are at most 8.
      ExpectClose(dx, reference::SwigluBackward(cols, ToDouble(x), ToDouble(dy)),
                  {17.0 * 1.6 * 8.0 * kUnit}, "dswiglu");
    }
  }
}

TEST_P(SwigluTest, KeepsNanAndTheLimits) {
  // Gate values, then up values.
  const Floats x = {kNan, kInfinity, -200.0F, 200.0F, 1.0F, 3.0F, 3.0F, kNan};
  Floats y(4);
  Run(api_.swiglu_forward, FtSwiglu{x.data(), nullptr, y.data(), 1, 4, FT_F32, FT_GATE_SILU});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], 0.0F);
  EXPECT_TRUE(std::isnan(y[3]));
  Floats dx(8);
  const Floats dy(4, 1.0F);
  Run(api_.swiglu_backward, FtSwiglu{x.data(), dy.data(), dx.data(), 1, 4, FT_F32, FT_GATE_SILU});
  EXPECT_TRUE(std::isnan(dx[0]));
  EXPECT_EQ(dx[1], 3.0F);
  EXPECT_EQ(dx[2], 0.0F);
  EXPECT_TRUE(std::isnan(dx[3]));
}

class AddTest : public KernelTest {};

// Bound: two additions of numbers below 1.
TEST_P(AddTest, EqualsTheReferenceAtRaggedSizesAlsoInPlace) {
  for (const std::int64_t rows : {1, 3}) {
    for (const std::int64_t cols : kRaggedSizes) {
      for (const bool with_bias : {false, true}) {
        const Floats a = Random(rows * cols, 1);
        const Floats b = Random(rows * cols, 2);
        const Floats bias = with_bias ? Random(cols, 3) : Floats{};
        const float* bias_at = with_bias ? bias.data() : nullptr;
        Floats out(a.size(), kNan);
        Floats on_a = a;
        Floats on_b = b;
        Run(api_.add, FtAdd{a.data(), b.data(), bias_at, out.data(), rows, cols, FT_F32, FT_F32});
        Run(api_.add,
            FtAdd{on_a.data(), b.data(), bias_at, on_a.data(), rows, cols, FT_F32, FT_F32});
        Run(api_.add,
            FtAdd{a.data(), on_b.data(), bias_at, on_b.data(), rows, cols, FT_F32, FT_F32});
        ExpectClose(out, reference::Add(cols, ToDouble(a), ToDouble(b), ToDouble(bias)),
                    {5.0 * kUnit}, "sum");
        EXPECT_EQ(Bits(on_a), Bits(out));
        EXPECT_EQ(Bits(on_b), Bits(out));
      }
    }
  }
}

// Computed by hand: 0.5 (1 + tanh(0.7978845608 * 1.044715)) = 0.5 (1 + 0.6823839) at 1, and that
// minus 1 at -1.
TEST(ActivationReference, GeluHasItsKnownValues) {
  const Tensor y = reference::GeluForward({1.0, -1.0, 0.0});
  EXPECT_NEAR(y[0], 0.8411920, 1e-7);
  EXPECT_NEAR(y[1], -0.1588080, 1e-7);
  EXPECT_EQ(y[2], 0.0);
}

TEST(ActivationReference, BackwardIsTheDifferenceGradient) {
  const Tensor x = ToDouble(Random(24, 1, 3.0F));
  const Tensor dy = ToDouble(Random(24, 2));
  ExpectGradient(
      reference::GeluBackward(x, dy), x,
      [&](const Tensor& v) { return Dot(reference::GeluForward(v), dy); }, "gelu");
  const Tensor half(dy.begin(), dy.begin() + 12);
  ExpectGradient(
      reference::SwigluBackward(4, x, half), x,
      [&](const Tensor& v) { return Dot(reference::SwigluForward(4, v), half); }, "swiglu");
}

FT_TEST_ALL_VARIANTS(GeluTest);
// gelu(gate) * up; the reference of GELU gives the expected values.
TEST_P(SwigluTest, GatesWithGelu) {
  const std::int64_t rows = 3, cols = 33;
  const Floats x = Random(rows * 2 * cols, 1, 3.0F), dy = Random(rows * cols, 2);
  Tensor gate, up, y, d_gate;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < cols; ++c) {
      gate.push_back(double{x[static_cast<std::size_t>(row * 2 * cols + c)]});
      up.push_back(double{x[static_cast<std::size_t>(row * 2 * cols + cols + c)]});
    }
  }
  const Tensor value = reference::GeluForward(gate);
  for (std::size_t i = 0; i < up.size(); ++i) {
    y.push_back(value[i] * up[i]);
    d_gate.push_back(double{dy[i]} * up[i]);
  }
  d_gate = reference::GeluBackward(gate, d_gate);
  Tensor dx;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < 2 * cols; ++c) {
      const auto i = static_cast<std::size_t>(row * cols + c % cols);
      dx.push_back(c < cols ? d_gate[i] : double{dy[i]} * value[i]);
    }
  }
  Floats out(static_cast<std::size_t>(rows * cols), kNan), grad(x.size(), kNan);
  Run(api_.swiglu_forward,
      FtSwiglu{x.data(), nullptr, out.data(), rows, cols, FT_F32, FT_GATE_GELU_TANH});
  Run(api_.swiglu_backward,
      FtSwiglu{x.data(), dy.data(), grad.data(), rows, cols, FT_F32, FT_GATE_GELU_TANH});
  // GELU of |x| <= 3 has 30 rounding errors of numbers up to 3, its slope 60. Both are multiplied
  // by |up| <= 3.
  ExpectClose(out, y, {300.0 * kUnit}, "y");
  ExpectClose(grad, dx, {300.0 * kUnit}, "dx");
}

FT_TEST_ALL_VARIANTS(SwigluTest);
FT_TEST_ALL_VARIANTS(AddTest);

}  // namespace
}  // namespace foretrain::test

// Updates with one moment: SGD with momentum, and Lion.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numeric/number_formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

class MomentumTest : public KernelTest {
 protected:
  static FtMomentum Settings() {
    FtMomentum g{};
    g.lr = 1e-2F;
    g.beta1 = 0.9F;
    g.beta2 = 0.99F;
    g.weight_decay = 0.1F;
    g.max_norm = 1.0F;
    g.dtype = FT_F32;
    return g;
  }
  void RunUpdate(bool lion, const FtMomentum& g) { Run(lion ? api_.lion : api_.momentum, g); }
};

double SignOf(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }

// In fp64, the formulas of FtMomentum with the gradient scaled by `factor`.
void Reference(bool lion, const FtMomentum& g, double factor, const Floats& grad, Tensor& param,
               Tensor& moment) {
  for (std::size_t i = 0; i < param.size(); ++i) {
    const double gradient = double{grad[i]} * factor, old = moment[i];
    const double beta1 = double{g.beta1}, beta2 = double{g.beta2};
    const double step =
        lion ? SignOf(beta1 * old + (1 - beta1) * gradient) : beta1 * old + gradient;
    moment[i] = lion ? beta2 * old + (1 - beta2) * gradient : step;
    const double decay =
        i < static_cast<std::size_t>(g.decayed) ? double{g.lr} * double{g.weight_decay} : 0.0;
    param[i] -= decay * param[i] + double{g.lr} * step;
  }
}

// Moments: the gradient's factor (3 rounding errors), two products, 1 - beta and a sum, of numbers
// up to 2. Parameters below 1: two products, two differences, and lr times the moment's errors.
TEST_P(MomentumTest, EqualsItsFormulaAtRaggedSizes) {
  for (const bool lion : {false, true}) {
    for (const std::int64_t n : kRaggedSizes) {
      for (const float squared_norm : {-1.0F, 0.25F, 25.0F}) {
        FtMomentum g = Settings();
        Floats param = Random(n, 1), moment = Random(n, 3);
        const Floats grad = Random(n, 2);
        const float scaled_norm = squared_norm * 64.0F;
        g.param = param.data();
        g.grad = grad.data();
        g.moment1 = moment.data();
        g.elements = n;
        g.decayed = n / 2;
        g.loss_scale = 8.0F;
        g.squared_norm = squared_norm < 0 ? nullptr : &scaled_norm;
        const double clip =
            squared_norm < 0 ? 1.0 : std::min(1.0, 1.0 / (std::sqrt(double{squared_norm}) + 1e-6));
        Tensor p = ToDouble(param), m = ToDouble(moment);
        Reference(lion, g, clip / 8.0, grad, p, m);
        RunUpdate(lion, g);
        ExpectClose(moment, m, {16.0 * kUnit}, "moment");
        ExpectClose(param, p, {6.0 * kUnit}, "param");
        const Floats before = param, moment_before = moment;
        const float infinite = 1.0F;
        g.not_finite = &infinite;
        RunUpdate(lion, g);
        EXPECT_EQ(Bits(param), Bits(before));
        EXPECT_EQ(Bits(moment), Bits(moment_before));
      }
    }
  }
}

struct Steps {
  bool lion;
  float decay;
  Floats params, moments;  // after each step
};

// By hand, from p = 1 with gradients 0.5, -1, 0.25 and lr = 0.1.
//   momentum 0.9      m: 0.5, 0.45 - 1 = -0.55, -0.495 + 0.25 = -0.245; p falls by m / 10.
//                     torch.optim.SGD(lr=0.1, momentum=0.9) gives the same (python3
//                     tests/torch/optimizers.py)
//   lion 0.9 0.99     signs of 0.05, 0.0045 - 0.1, -0.004545 + 0.025: +, -, +. Each p loses a
//                     hundredth of itself (decay 0.1) and 0.1 times the sign.
TEST_P(MomentumTest, TakesThreeStepsByHand) {
  const Floats gradients = {0.5F, -1.0F, 0.25F};
  for (const Steps& steps :
       {Steps{false, 0, {0.95F, 1.005F, 1.0295F}, {0.5F, -0.55F, -0.245F}},
        Steps{true, 0.1F, {0.89F, 0.9811F, 0.871289F}, {0.005F, -0.00505F, -0.0024995F}}}) {
    FtMomentum g = Settings();
    float param = 1, moment = 0, grad = 0;
    g.param = &param;
    g.moment1 = &moment;
    g.grad = &grad;
    g.elements = g.decayed = 1;
    g.lr = 0.1F;
    g.weight_decay = steps.decay;
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      grad = gradients[step];
      RunUpdate(steps.lion, g);
      EXPECT_NEAR(param, steps.params[step], 1e-6F);
      EXPECT_NEAR(moment, steps.moments[step], 1e-7F);
    }
  }
}

// Where moment and gradient are 0, as for tokens that never occur, Lion only decays.
TEST_P(MomentumTest, LionStandsStillAtZeroAndKeepsNan) {
  FtMomentum g = Settings();
  Floats param = {1.0F, 1.0F, 1.0F}, moment = {0.0F, 0.0F, 0.0F};
  const Floats grad = {0.0F, -0.0F, std::numeric_limits<float>::quiet_NaN()};
  g.param = param.data();
  g.moment1 = moment.data();
  g.grad = grad.data();
  g.elements = 3;
  RunUpdate(/*lion=*/true, g);
  EXPECT_EQ(param[0], 1.0F);
  EXPECT_EQ(param[1], 1.0F);
  EXPECT_TRUE(std::isnan(param[2]));
}

// A moment in bf16 is the one in fp32 rounded, if it was a bf16 number before.
TEST_P(MomentumTest, RoundsMomentsToBf16) {
  for (const bool lion : {false, true}) {
    for (const std::int64_t n : {1, 33, 300}) {  // 300: more than one block
      FtMomentum g = Settings();
      Floats param = Random(n, 1), moment = Random(n, 3);
      const Floats grad = Random(n, 2);
      std::vector<std::uint16_t> codes;
      for (float& m : moment) {
        codes.push_back(Bf16OfFloat(m));
        m = FloatOfBf16(codes.back());
      }
      g.grad = grad.data();
      g.elements = n;
      g.decayed = n / 2;
      Floats expected = param;
      g.param = expected.data();
      g.moment1 = moment.data();
      RunUpdate(lion, g);
      g.param = param.data();
      g.moment1 = codes.data();
      g.moments = FT_BF16;
      RunUpdate(lion, g);
      EXPECT_EQ(Bits(param), Bits(expected));
      for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], Bf16OfFloat(moment[i]));
    }
  }
}

// Weights in bf16 are the fp32 parameters rounded.
TEST_P(MomentumTest, WritesShortWeights) {
  for (const bool lion : {false, true}) {
    FtMomentum g = Settings();
    Floats param = Random(33, 1), moment = Random(33, 3);
    const Floats grad = Random(33, 2);
    std::vector<std::uint16_t> weights(33);
    g.param = param.data();
    g.grad = grad.data();
    g.moment1 = moment.data();
    g.elements = 33;
    g.weights = weights.data();
    g.weights_dtype = FT_BF16;
    RunUpdate(lion, g);
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights[i], Bf16OfFloat(param[i]));
  }
}

TEST_P(MomentumTest, RefusesMomentsIn8Bits) {
  FtMomentum g = Settings();
  float one = 1;
  g.param = g.moment1 = &one;
  g.grad = &one;
  g.elements = 1;
  g.moments = FT_I8;
  EXPECT_EQ(api_.lion(queue_.get(), &g), FT_UNSUPPORTED);
}

FT_TEST_ALL_VARIANTS(MomentumTest);

}  // namespace
}  // namespace foretrain::test

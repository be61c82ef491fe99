// Gates of rows, balancing of a router and loss scaling, computed by hand.
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class GateTest : public KernelTest {};

// sigmoid(log 3) = 3/4 and sigmoid(0) = 1/2. Backward of the first row: dx = 3/4 dy; the score's
// gradient is dy . x = 2 * 4 + 1 * 8 = 16, times 3/4 * 1/4.
TEST_P(GateTest, ScalesRowsByTheSigmoidOfTheirScores) {
  const Floats x = {4, 8, 2, 6}, scores = {std::log(3.0F), 0};
  Floats y(4, kNan);
  Run(api_.gate_forward, FtGateForward{x.data(), scores.data(), y.data(), 2, 2, 0, FT_F32});
  ExpectClose(y, {3, 6, 1, 3}, {1e-6}, "y");
  Run(api_.gate_forward, FtGateForward{x.data(), scores.data(), y.data(), 2, 2, 1, FT_F32});
  ExpectClose(y, {6, 12, 2, 6}, {1e-6}, "y");
  const Floats dy = {2, 1, 4, -2};
  Floats dx(4, kNan), d_scores(2, kNan);
  Run(api_.gate_backward,
      FtGateBackward{dy.data(), x.data(), scores.data(), dx.data(), d_scores.data(), 2, 2, FT_F32});
  ExpectClose(dx, {1.5, 0.75, 2, -1}, {1e-6}, "dx");
  ExpectClose(d_scores, {3, -1}, {1e-6}, "d_scores");
}

// Three tokens with two experts each: expert 0 twice, 1 once, 2 three times, 3 never. The mean is 6
// / 4, so experts 0 and 2 are above it.
TEST_P(GateTest, MovesBiasesAgainstLoads) {
  const std::vector<std::int32_t> chosen = {2, 0, 2, 1, 0, 2};
  Floats loads = {0, 0, 0, 0}, bias = {0.5, 0, -1, 0};
  Run(api_.count_choices, FtCountChoices{chosen.data(), loads.data(), 3, 4, 2});
  EXPECT_EQ(loads, (Floats{2, 1, 3, 0}));
  Run(api_.balance_bias, FtBalanceBias{loads.data(), bias.data(), 4, 0.25F});
  EXPECT_EQ(bias, (Floats{0.25, 0.25, -1.25, 0.25}));
  EXPECT_EQ(loads, (Floats{0, 0, 0, 0}));
  loads = {3, 3, 3, 3};  // no expert differs from the mean
  Run(api_.balance_bias, FtBalanceBias{loads.data(), bias.data(), 4, 0.25F});
  EXPECT_EQ(bias, (Floats{0.25, 0.25, -1.25, 0.25}));
}

// Steps from scale 4 with a window of 2: good, bad (2), good, good (4), bad (2), bad (1), bad:
// stays 1.
TEST_P(GateTest, ScalesTheLossByItsHistory) {
  Floats doublings = {0}, since = {0};
  const auto step = [&](float not_finite) {
    Run(api_.scale_loss,
        FtScaleLoss{&not_finite, doublings.data(), since.data(), 4.0F, /*growth_interval=*/2});
    return doublings[0];
  };
  const std::pair<float, float> steps[] = {{0, 0},  {7, -1}, {0, -1}, {0, 0}, {1, -1},
                                           {1, -2}, {1, -2}, {0, -2}, {0, -1}};
  for (const auto& [not_finite, expected] : steps) EXPECT_EQ(step(not_finite), expected);
}

// 2 to the power in the state is part of the scale. It multiplies the gradients of the loss and of
// the balance loss, and the update divides by it.
TEST_P(GateTest, ScalesByPowersOfTwo) {
  const std::int32_t target = 1;
  const float lse = std::log(2.0F), power = 3;
  Floats logits = {0, 0};
  FtCrossEntropyBackward loss{};
  loss.logits = logits.data(), loss.targets = &target, loss.lse = &lse;
  loss.rows = 1, loss.vocab = 2, loss.scale = 0.5F, loss.loss_scale = &power;
  Run(api_.cross_entropy_backward, loss);
  ExpectClose(logits, {2, -2}, {1e-6}, "logits");  // 0.5 * 8 * (1/2, -1/2)
  Floats param = {1}, grad = {16};
  FtSgd sgd{};
  sgd.param = param.data(), sgd.grad = grad.data(), sgd.elements = 1, sgd.lr = 0.25F;
  sgd.loss_scale = 2, sgd.loss_scale_state = &power;
  Run(api_.sgd, sgd);
  EXPECT_EQ(param[0], 0.75F);  // 16 / (2 * 8) times 1/4
}

FT_TEST_ALL_VARIANTS(GateTest);

}  // namespace
}  // namespace foretrain::test

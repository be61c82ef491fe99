// Parts of DeepSeek's and gpt-oss's layers: heads of latent attention, sinks, sigmoid routing, the
// clamped gate, biases of experts, and targets one position further ahead.
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class LatentTest : public KernelTest {};

FtLatentHeads HeadsOf(Floats& q, Floats& kv, Floats& turned, Floats& qkv, bool inverse) {
  FtLatentHeads g{};
  g.q = q.data(), g.kv = kv.data(), g.turned_key = turned.data(), g.qkv = qkv.data();
  g.rows = 2, g.heads = 2, g.head_dim = 3, g.rotary = 2, g.value_dim = 2;
  g.inverse = inverse ? 1 : 0;
  return g;
}

// Two rows of two heads. Queries are 1 to 6; keys and values are 11 12 13 and 21 22 23, of which
// the first is the key; the rotated key is 31 32. The second row has 100 more.
TEST_P(LatentTest, HeadsGetTheirPartsAndTheTurnedKey) {
  Floats q, kv, turned, qkv(32, kNan);
  for (const float more : {0.0F, 100.0F}) {
    for (const float x : {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}) q.push_back(more + x);
    for (const float x : {11.0F, 12.0F, 13.0F, 21.0F, 22.0F, 23.0F}) kv.push_back(more + x);
    for (const float x : {31.0F, 32.0F}) turned.push_back(more + x);
  }
  Run(api_.latent_heads, HeadsOf(q, kv, turned, qkv, false));
  Floats expected;  // rows of 2 * (3 + 3 + 2) numbers
  for (const float more : {0.0F, 100.0F}) {
    for (const int x : {1, 2, 3, 4, 5, 6, 11, 31, 32, 21, 31, 32, 12, 13, 22, 23}) {
      expected.push_back(more + static_cast<float>(x));
    }
  }
  EXPECT_EQ(qkv, expected);
  Floats dq(12, kNan), dkv(12, kNan), dturned(4, kNan);
  Run(api_.latent_heads, HeadsOf(dq, dkv, dturned, qkv, true));
  EXPECT_EQ(dq, q);
  EXPECT_EQ(dkv, kv);
  EXPECT_EQ(dturned, (Floats{62, 64, 262, 264}));  // sum over both heads
}

// Softmax over scores log 1 and log 2 with a sink of log 3. Without the sink, probabilities are 1/3
// and 2/3; with it, 1/6 and 1/3. So out is halved, and lse = log 6. dout . out = 0.5 * (2 * 3 + 4 *
// 5) = 13 gives a sink gradient of -3/6 * 13. The second row has one score of 0, and its out is a
// quarter.
TEST_P(LatentTest, SinksTakeTheirPartOfTheSoftmax) {
  Floats out = {3, 5, 8, 4}, lse = {std::log(3.0F), 0.0F};
  const Floats sinks = {std::log(3.0F)}, dout = {2, 4, 1, 0};
  Run(api_.sink_forward,
      FtSinkForward{out.data(), lse.data(), sinks.data(), 2, 1, 2, FT_F32, FT_F32});
  ExpectClose(out, {1.5, 2.5, 2.0, 1.0}, {1e-6}, "out");
  ExpectClose(lse, {std::log(6.0), std::log(4.0)}, {1e-6}, "lse");
  Floats grad = {10};
  FtSinkBackward back{out.data(), dout.data(), lse.data(), sinks.data(), grad.data(), 2,
                      1,          2,           0,          FT_F32,       FT_F32,      FT_F32};
  Run(api_.sink_backward, back);
  // Gradient per row: -1/2 * (2 * 1.5 + 4 * 2.5) = -6.5 and -3/4 * 2 = -1.5.
  ExpectClose(grad, {-8.0}, {1e-5}, "grad");
  back.accumulate = 1;
  Run(api_.sink_backward, back);
  ExpectClose(grad, {-16.0}, {1e-5}, "added");
}

TEST_P(LatentTest, TargetsMoveUpWithinTheirSequence) {
  const std::vector<std::int32_t> targets = {5, 6, 7, 8, 9, 4};
  std::vector<std::int32_t> out(6, -7);
  Run(api_.shift_targets, FtShiftTargets{targets.data(), out.data(), 6, 3});
  EXPECT_EQ(out, (std::vector<std::int32_t>{6, 7, -1, 9, 4, -1}));
}

struct Routing {
  FtRoute route{};
  Floats probs, weights;
  std::vector<std::int32_t> chosen, places, sources, counts, balance_counts;

  Routing(const Floats& logits, std::int64_t experts, std::int64_t per_token) {
    const auto rows = static_cast<std::int64_t>(logits.size()) / experts;
    const auto pairs = static_cast<std::size_t>(rows * per_token);
    probs.assign(logits.size(), kNan), weights.assign(pairs, kNan);
    chosen.assign(pairs, -7), places.assign(pairs, -7), sources.assign(pairs, -7);
    counts.assign(static_cast<std::size_t>(experts), -7), balance_counts = counts;
    route.logits = logits.data(), route.probs = probs.data(), route.weights = weights.data();
    route.chosen = chosen.data(), route.places = places.data(), route.sources = sources.data();
    route.counts = counts.data(), route.balance_counts = balance_counts.data();
    route.rows = rows, route.experts = experts, route.per_token = per_token;
    route.pieces = 1, route.balance_rows = rows, route.sigmoid = 1;
  }
};

// Sigmoids of 0, log 3, -log 3 and log 9 are 1/2, 3/4, 1/4 and 9/10. The weights of the best two
// are 9/10 and 3/4, divided by their sum 1.65 and multiplied by 2.5.
TEST_P(LatentTest, SigmoidsOfTheChosenAreDividedByTheirSum) {
  const Floats logits = {0.0F, std::log(3.0F), -std::log(3.0F), std::log(9.0F)};
  Floats bias = {0, 0, 0, 0};
  Routing r(logits, 4, 2);
  r.route.choice_bias = bias.data();
  r.route.weight_scale = 2.5F;
  Run(api_.route, r.route);
  EXPECT_EQ(r.chosen, (std::vector<std::int32_t>{3, 1}));
  ExpectClose(r.probs, {0.5, 0.75, 0.25, 0.9}, {1e-6}, "probs");
  ExpectClose(r.weights, {2.5 * 0.9 / 1.65, 2.5 * 0.75 / 1.65}, {1e-6}, "weights");
  bias[2] = 1.0F;  // chosen first, with an unchanged weight
  Run(api_.route, r.route);
  EXPECT_EQ(r.chosen, (std::vector<std::int32_t>{2, 3}));
  ExpectClose(r.weights, {2.5 * 0.25 / 1.15, 2.5 * 0.9 / 1.15}, {1e-6}, "biased");
}

// Undivided, the weights of the best two are 1.5 times 9/10 and 3/4, and their gradients those of
// the sigmoids alone: 1.5 s (1 - s) d. The balance loss acts on s / 2.4 as before; here it is 0.
TEST_P(LatentTest, SigmoidsOfTheChosenMayStayUndivided) {
  const Floats logits = {0.0F, std::log(3.0F), -std::log(3.0F), std::log(9.0F)};
  Routing r(logits, 4, 2);
  r.route.sigmoid = 2;
  r.route.weight_scale = 1.5F;
  Run(api_.route, r.route);
  EXPECT_EQ(r.chosen, (std::vector<std::int32_t>{3, 1}));
  ExpectClose(r.weights, {1.35, 1.125}, {1e-6}, "weights");
  const Floats d_weights = {2.0F, -4.0F};
  Floats d_logits(4, kNan);
  FtRouteBackward back{};
  back.probs = r.probs.data(), back.weights = r.weights.data(), back.chosen = r.chosen.data();
  back.balance_counts = r.balance_counts.data(), back.d_weights = d_weights.data();
  back.d_logits = d_logits.data();
  back.rows = back.balance_rows = 1, back.experts = 4, back.per_token = 2;
  back.sigmoid = 2, back.weight_scale = 1.5F;
  Run(api_.route_backward, back);
  ExpectClose(d_logits, {0.0, -1.5 * 0.75 * 0.25 * 4.0, 0.0, 1.5 * 0.9 * 0.1 * 2.0}, {1e-6},
              "d_logits");
}

// Two groups of two. Their sigmoids sum to 1.25 and 1.15, but the best single expert is in the
// second group.
TEST_P(LatentTest, GroupsAreChosenByTheirBestExperts) {
  const Floats logits = {0.0F, std::log(3.0F), -std::log(3.0F), std::log(9.0F)};
  Routing r(logits, 4, 2);
  r.route.expert_groups = 2, r.route.group_limit = 1;
  Run(api_.route, r.route);
  EXPECT_EQ(r.chosen, (std::vector<std::int32_t>{1, 0}));
  r.route.group_top = 1;
  Run(api_.route, r.route);
  EXPECT_EQ(r.chosen, (std::vector<std::int32_t>{3, 2}));
}

// Slope of sum(d_weights * weights) plus the balance loss 0.3 * 4 / (3 * 2) * sum over e of
// counts[e] * mean(probs / sum of their row), by differences in double precision.
TEST_P(LatentTest, RouteBackwardIsTheSlopeOfWeightsAndBalance) {
  const Floats logits = Random(12, 3, 2.0F), d_weights = Random(6, 4);
  Routing r(logits, 4, 2);
  r.route.weight_scale = 1.5F;
  Run(api_.route, r.route);
  FtRouteBackward back{};
  Floats d_logits(12, kNan);
  back.probs = r.probs.data(), back.weights = r.weights.data(), back.chosen = r.chosen.data();
  back.balance_counts = r.balance_counts.data(), back.d_weights = d_weights.data();
  back.d_logits = d_logits.data();
  back.rows = back.balance_rows = 3, back.experts = 4, back.per_token = 2;
  back.balance = 0.3F, back.sigmoid = 1, back.weight_scale = 1.5F;
  Run(api_.route_backward, back);
  const auto loss = [&](const Tensor& x) {
    double sum = 0;
    for (std::size_t row = 0; row < 3; ++row) {
      double all = 0, chosen = 0;
      const auto s = [&](std::size_t e) { return 1 / (1 + std::exp(-x[row * 4 + e])); };
      for (std::size_t e = 0; e < 4; ++e) all += s(e);
      const auto of = [&](std::size_t j) {
        return static_cast<std::size_t>(r.chosen[row * 2 + j]);
      };
      for (std::size_t j = 0; j < 2; ++j) chosen += s(of(j));
      for (std::size_t j = 0; j < 2; ++j) {
        sum += static_cast<double>(d_weights[row * 2 + j]) * 1.5 * s(of(j)) / chosen;
      }
      for (std::size_t e = 0; e < 4; ++e) {
        sum += 0.3 * 4 / (3.0 * 2) * r.balance_counts[e] * s(e) / all / 3;
      }
    }
    return sum;
  };
  const Tensor x = ToDouble(logits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Tensor up = x, down = x;
    up[i] += 1e-5, down[i] -= 1e-5;
    EXPECT_NEAR(static_cast<double>(d_logits[i]), (loss(up) - loss(down)) / 2e-5, 1e-6) << i;
  }
}

// g sigmoid(1.702 g) (u + 1) with g = min(gate, 7) and u = up clamped to [-7, 7]. Gradients by
// differences; 0 where a clamp is active.
TEST_P(LatentTest, ClampedGatesEqualTheirDefinition) {
  const Floats gate = {-3.0F, -0.5F, 0.0F, 1.25F, 6.5F, 8.0F, 2.0F, 2.0F},
               up = {0.5F, -2.0F, 1.0F, -1.0F, 3.0F, 2.0F, 9.0F, -9.0F};
  const auto n = static_cast<std::int64_t>(gate.size());
  Floats x = gate, y(gate.size(), kNan), dx(2 * gate.size(), kNan), dy = Random(n, 1);
  x.insert(x.end(), up.begin(), up.end());
  Run(api_.swiglu_forward, FtSwiglu{x.data(), nullptr, y.data(), 1, n, FT_F32, FT_GATE_CLAMPED});
  Run(api_.swiglu_backward,
      FtSwiglu{x.data(), dy.data(), dx.data(), 1, n, FT_F32, FT_GATE_CLAMPED});
  const auto value = [](double g, double u) {
    g = std::min(g, 7.0);
    u = std::clamp(u, -7.0, 7.0);
    return g / (1 + std::exp(-1.702 * g)) * (u + 1);
  };
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i], u = up[i], step = 1e-6;
    EXPECT_NEAR(y[i], value(g, u), 1e-5 * std::abs(value(g, u)) + 1e-6) << i;
    EXPECT_NEAR(dx[i], dy[i] * (value(g + step, u) - value(g - step, u)) / (2 * step), 1e-4) << i;
    EXPECT_NEAR(dx[i + gate.size()], dy[i] * (value(g, u + step) - value(g, u - step)) / (2 * step),
                1e-4)
        << i;
  }
}

// Experts 0 and 1 have 1 and 3 rows of two numbers.
TEST_P(LatentTest, ExpertsHaveBiasesOfTheirOwn) {
  Floats x = {1, 1, 2, 2, 3, 3, 4, 4};
  const Floats bias = {10, 20, 100, 200};
  const std::vector<std::int32_t> counts = {1, 3};
  Run(api_.expert_bias,
      FtExpertBias{x.data(), bias.data(), counts.data(), 4, 2, 2, 2, 0, 0.5F, FT_F32, FT_F32});
  EXPECT_EQ(x, (Floats{6, 11, 52, 102, 53, 103, 54, 104}));
  Floats grad(4, kNan);
  FtExpertBiasGrad back{x.data(), grad.data(), counts.data(), 4, 2, 2, 2, 0, 0, FT_F32, FT_F32};
  Run(api_.expert_bias_grad, back);
  EXPECT_EQ(grad, (Floats{6, 11, 159, 309}));
  back.accumulate = 1;
  Run(api_.expert_bias_grad, back);
  EXPECT_EQ(grad, (Floats{12, 22, 318, 618}));
}

FT_TEST_ALL_VARIANTS(LatentTest);

}  // namespace
}  // namespace foretrain::test

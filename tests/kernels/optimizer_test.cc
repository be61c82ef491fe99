#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct AdamCase {
  std::int64_t elements, decayed, step;
  float squared_norm;  // negative: none
};

class AdamWTest : public KernelTest {
 protected:
  static FtAdamW Settings() {
    FtAdamW g{};
    g.lr = 1e-2F;
    g.beta1 = 0.9F;
    g.beta2 = 0.95F;
    g.epsilon = 1e-8F;
    g.weight_decay = 0.1F;
    g.max_norm = 1.0F;
    g.dtype = FT_F32;
    return g;
  }

  void Check(const AdamCase& c) {
    SCOPED_TRACE(std::to_string(c.elements) + " elements, step " + std::to_string(c.step));
    FtAdamW g = Settings();
    g.elements = c.elements;
    g.decayed = c.decayed;
    g.step = c.step;
    g.squared_norm = c.squared_norm < 0.0F ? nullptr : &c.squared_norm;
    Floats param = Random(c.elements, 1);
    const Floats grad = Random(c.elements, 2);
    Floats moment1 = Random(c.elements, 3, 0.1F);
    Floats moment2 = Random(c.elements, 4, 0.1F);
    for (float& v : moment2) {
      v = std::abs(v) + 0.01F;
    }
    Tensor p = ToDouble(param);
    Tensor m = ToDouble(moment1);
    Tensor v = ToDouble(moment2);
    g.param = param.data();
    g.grad = grad.data();
    g.moment1 = moment1.data();
    g.moment2 = moment2.data();
    Run(api_.adamw, g);
    reference::AdamW({.decayed = c.decayed,
                      .step = c.step,
                      .lr = double{g.lr},
                      .beta1 = double{g.beta1},
                      .beta2 = double{g.beta2},
                      .epsilon = double{g.epsilon},
                      .weight_decay = double{g.weight_decay},
                      .max_norm = double{g.max_norm},
                      .squared_norm = double{c.squared_norm}},
                     ToDouble(grad), p, m, v);
    // Moments: the clipping factor (3 roundings), two products, 1 - beta and a sum, of numbers up
    // to 1. Parameters: below 1, one rounding, and lr * m / sqrt(v), whose m is below 2 over
    // sqrt(0.01) after at most 1 / (1 - beta1) = 10 times: 16 roundings of lr * 200.
    ExpectClose(moment1, m, {8.0 * kUnit}, "moment1");
    ExpectClose(moment2, v, {8.0 * kUnit}, "moment2");
    ExpectClose(param, p, {(2.0 + 16.0 * 200.0 * double{g.lr}) * kUnit}, "param");
  }
};

TEST_P(AdamWTest, EqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t n : kRaggedSizes) {
    for (const std::int64_t step : {1, 2, 1000}) {
      Check({n, n / 2, step, -1.0F});
      Check({n, n, step, 25.0F});     // clipped to a fifth
      Check({n, 0, step, 0.25F});     // below max_norm: left alone
      Check({n, 2 * n, step, 0.0F});  // more decay than there are elements: all do
    }
  }
}

// Hand arithmetic: from m = v = 0 with g = 0.5, mhat = g and vhat = g^2, so the first step moves by
// lr * g / (|g| + 1e-8), which is lr = 0.01; a decayed parameter of 2 loses 2 * 0.01 * 0.1 = 0.002
// as well.
TEST_P(AdamWTest, FirstStepMovesByTheLearningRate) {
  FtAdamW g = Settings();
  Floats param = {2.0F, 2.0F};
  const Floats grad = {0.5F, 0.5F};
  Floats moment1(2, 0.0F);
  Floats moment2(2, 0.0F);
  g.param = param.data();
  g.grad = grad.data();
  g.moment1 = moment1.data();
  g.moment2 = moment2.data();
  g.elements = 2;
  g.decayed = 1;
  g.step = 1;
  Run(api_.adamw, g);
  EXPECT_NEAR(param[0], 2.0 - 0.01 - 0.002, 4e-7);
  EXPECT_NEAR(param[1], 2.0 - 0.01, 4e-7);
}

TEST_P(AdamWTest, NanInAGradientOrInTheNormReachesTheParameter) {
  for (const bool in_norm : {false, true}) {
    FtAdamW g = Settings();
    Floats param(40, 1.0F);
    Floats grad(40, 0.5F);
    Floats moment1(40, 0.0F);
    Floats moment2(40, 0.0F);
    const float norm = in_norm ? kNan : 1.0F;
    grad[7] = in_norm ? 0.5F : kNan;
    g.param = param.data();
    g.grad = grad.data();
    g.moment1 = moment1.data();
    g.moment2 = moment2.data();
    g.squared_norm = &norm;
    g.elements = 40;
    g.step = 1;
    Run(api_.adamw, g);
    EXPECT_TRUE(std::isnan(param[7]));
    EXPECT_EQ(std::isnan(param[8]), in_norm);
  }
}

class SquaredNormTest : public KernelTest {};

// Sums are in double: one rounding to fp32 of the result, and of the accumulated sum.
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

// 1 + 2^26 ones: in fp32 every further one would be lost.
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
    Run(api_.sum_ranks,
        FtSumRanks{sources.data(), ranks[3].data(), n, 5, 0, FT_F32});  // onto a source
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

FT_TEST_ALL_VARIANTS(AdamWTest);
FT_TEST_ALL_VARIANTS(SquaredNormTest);
FT_TEST_ALL_VARIANTS(SumRanksTest);

}  // namespace
}  // namespace foretrain::test

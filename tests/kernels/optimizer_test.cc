#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/numeric/number_formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct AdamCase {
  std::int64_t elements, decayed, step;
  float squared_norm;  // negative: no clipping
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
    // Moments: the clipping factor (3 rounding errors), two products, 1 - beta and a sum, of
    // numbers up to 1. Parameters: below 1, one rounding error, and lr * m / sqrt(v). There m is
    // below 2 and sqrt(v) above sqrt(0.01), with up to 1 / (1 - beta1) = 10 times: 16 rounding
    // errors of lr * 200.
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
      Check({n, 0, step, 0.25F});     // below max_norm: not clipped
      Check({n, 2 * n, step, 0.0F});  // more decayed elements than there are: all decay
    }
  }
}

// Computed by hand: from m = v = 0 with g = 0.5, mhat = g and vhat = g^2. The first step moves by
// lr * g / (|g| + 1e-8), which is lr = 0.01. A decayed parameter of 2 also loses 2 * 0.01 * 0.1 =
// 0.002.
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

TEST_P(AdamWTest, NanInAGradientReachesItsParameter) {
  FtAdamW g = Settings();
  Floats param(40, 1.0F), grad(40, 0.5F), moment1(40, 0.0F), moment2(40, 0.0F);
  grad[7] = kNan;
  g.param = param.data(), g.grad = grad.data();
  g.moment1 = moment1.data(), g.moment2 = moment2.data();
  g.elements = 40;
  g.step = 1;
  Run(api_.adamw, g);
  EXPECT_TRUE(std::isnan(param[7]));
  EXPECT_FALSE(std::isnan(param[8]));
}

TEST_P(AdamWTest, WritesNothingIfTheNormIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float norm : {kNan, kInfinity, -kInfinity}) {
    FtAdamW g = Settings();
    Floats param(40, 1.0F), grad(40, 0.5F), moment1(40, 0.25F), moment2(40, 0.125F);
    g.param = param.data(), g.grad = grad.data();
    g.moment1 = moment1.data(), g.moment2 = moment2.data();
    g.squared_norm = &norm;
    g.elements = 40;
    g.step = 1;
    Run(api_.adamw, g);
    EXPECT_EQ(param, Floats(40, 1.0F));
    EXPECT_EQ(moment1, Floats(40, 0.25F));
    EXPECT_EQ(moment2, Floats(40, 0.125F));
  }
}

// Moments of one tensor in the format under test.
struct Moments {
  Moments(std::int64_t n, FtDtype format) : dtype(format) {
    const auto count = static_cast<std::size_t>(n);
    const std::size_t size = dtype == FT_F32 ? 4 : dtype == FT_BF16 ? 2 : 1;
    first.resize(count * size);
    second.resize(count * size);
    largest1.resize((count + FT_SCALE_BLOCK - 1) / FT_SCALE_BLOCK);
    largest2.resize(largest1.size());
  }
  void BindTo(FtAdamW& g) {
    g.moments = dtype;
    g.moment1 = first.data();
    g.moment2 = second.data();
    g.absmax1 = largest1.data();
    g.absmax2 = largest2.data();
  }
  // The first or second moments, decoded to fp32.
  Floats Decoded(bool of_first) const {
    const auto& bytes = of_first ? first : second;
    Floats out;
    const std::size_t size = dtype == FT_F32 ? 4 : dtype == FT_BF16 ? 2 : 1;
    for (std::size_t i = 0; i * size < bytes.size(); ++i) {
      float value = 0;
      if (dtype == FT_F32) {
        std::memcpy(&value, &bytes[4 * i], 4);
      } else if (dtype == FT_BF16) {
        std::uint16_t half = 0;
        std::memcpy(&half, &bytes[2 * i], 2);
        value = FloatOfBf16(half);
      } else if (of_first) {
        value = FloatOfSignedDynamic(bytes[i]) * largest1[i / FT_SCALE_BLOCK];
      } else {
        const float root = FloatOfUnsignedDynamic(bytes[i]) * largest2[i / FT_SCALE_BLOCK];
        value = root * root;
      }
      out.push_back(value);
    }
    return out;
  }

  FtDtype dtype;
  std::vector<std::uint8_t> first, second;
  Floats largest1, largest2;
};

// One step from stored moments equals AdamW from their decoded values; new moments are within half
// a step of the format. bf16: 2^-8 of the number. 8 bits: half a bin of the top decade, 0.45 / 64
// of the block's largest first moment. Roots have 0.45 / 128 of the largest root r, so second
// moments differ by 2 r * r * 0.45 / 128 and the square of that.
TEST_P(AdamWTest, KeepsMomentsInShorterFormats) {
  for (const FtDtype dtype : {FT_BF16, FT_I8}) {
    for (const std::int64_t n : {1, 31, 255, 256, 257, 1000}) {
      SCOPED_TRACE(std::to_string(n) + " elements of dtype " + std::to_string(dtype));
      FtAdamW g = Settings();
      g.elements = n;
      g.decayed = n / 2;
      Moments moments(n, dtype);
      moments.BindTo(g);
      Floats param = Random(n, 1);
      g.param = param.data();
      for (std::int64_t step = 1; step <= 3; ++step) {
        const Floats grad = Random(n, static_cast<std::uint32_t>(10 + step));
        g.grad = grad.data();
        g.step = step;
        Tensor p = ToDouble(param);
        Tensor m = ToDouble(moments.Decoded(true)), v = ToDouble(moments.Decoded(false));
        Run(api_.adamw, g);
        reference::AdamW({.decayed = g.decayed,
                          .step = step,
                          .lr = double{g.lr},
                          .beta1 = double{g.beta1},
                          .beta2 = double{g.beta2},
                          .epsilon = double{g.epsilon},
                          .weight_decay = double{g.weight_decay}},
                         ToDouble(grad), p, m, v);
        // The second moment may be stored as 0 while the first is not. Then the step divides by a
        // tiny root, and the rounding errors of both grow with the step, which is at most lr * |m|
        // / sqrt(v).
        Tensor bound1, bound2, bound_param;
        for (std::size_t i = 0; i < p.size(); ++i) {
          const std::size_t block = i / FT_SCALE_BLOCK;
          const double r1 = double{moments.largest1[block]};
          const double r2 = double{moments.largest2[block]};
          const double bin = 0.45 / 128 * 1.001;
          bound1.push_back(dtype == FT_BF16 ? std::abs(m[i]) / 256 + 1e-6
                                            : 0.45 / 64 * 1.001 * r1 + 1e-6);
          bound2.push_back(dtype == FT_BF16 ? v[i] / 256 + 1e-6
                                            : r2 * r2 * (2 * bin + bin * bin) + 1e-6);
          const double move = std::abs(p[i]) + std::abs(m[i]) / (std::sqrt(v[i]) + 1e-8);
          bound_param.push_back(32 * kUnit * (1.0 + move));
        }
        ExpectClose(param, p, bound_param, "param");
        ExpectClose(moments.Decoded(true), m, bound1, "moment1");
        ExpectClose(moments.Decoded(false), v, bound2, "moment2");
      }
    }
  }
}

TEST_P(AdamWTest, SkipsAStepWithoutATraceAndLeavesItOutOfBiasCorrection) {
  for (const FtDtype dtype : {FT_F32, FT_BF16, FT_I8}) {
    FtAdamW g = Settings();
    g.elements = 300;
    Moments moments(300, dtype), other(300, dtype);
    const Floats grad = Random(300, 2);
    Floats param = Random(300, 1), twin = param;
    const Floats before = param;
    const float infinite = 3.0F, finite = 0.0F;
    float skipped = 0.0F;
    g.grad = grad.data();
    g.param = param.data();
    moments.BindTo(g);
    g.step = 1;
    g.not_finite = &infinite;
    g.skipped = &skipped;
    Run(api_.adamw, g);
    EXPECT_EQ(Bits(param), Bits(before));
    EXPECT_EQ(moments.first, other.first);
    EXPECT_EQ(moments.largest2, other.largest2);
    // Step 2 after a skipped step equals step 1 of a run without it.
    skipped = 1.0F;
    g.not_finite = &finite;
    g.step = 2;
    Run(api_.adamw, g);
    FtAdamW plain = Settings();
    plain.elements = 300;
    plain.grad = grad.data();
    plain.param = twin.data();
    other.BindTo(plain);
    plain.step = 1;
    Run(api_.adamw, plain);
    EXPECT_EQ(Bits(param), Bits(twin));
    EXPECT_EQ(moments.first, other.first);
  }
}

// An update with one clipping factor, amended to another, equals an update with the second factor.
// Moments have the rounding errors of (1 - beta) times the gradient's larger square. Parameters
// have those of both updates, lr * mean / root, each up to 10 * lr.
TEST_P(AdamWTest, AmendsAnUpdateToOneByAnotherNorm) {
  const float small = 0.04F, large = 25.0F;  // not clipped, and clipped to a fifth
  for (const std::int64_t n : kRaggedSizes) {
    for (const auto& [then, now] : {std::pair(&small, &large), std::pair(&large, &small)}) {
      FtAdamW g = Settings();
      g.elements = n;
      g.decayed = n / 2;
      g.step = 3;
      const Floats grad = Random(n, 2);
      Floats param = Random(n, 1), first = Random(n, 3, 0.1F), second = Random(n, 4, 0.1F);
      for (float& v : second) v = std::abs(v) + 0.01F;
      Floats twin = param, twin_first = first, twin_second = second;
      g.grad = grad.data();
      g.param = twin.data();
      g.moment1 = twin_first.data();
      g.moment2 = twin_second.data();
      g.squared_norm = now;
      Run(api_.adamw, g);
      g.param = param.data();
      g.moment1 = first.data();
      g.moment2 = second.data();
      g.squared_norm = then;
      Run(api_.adamw, g);
      g.squared_norm = now;
      Run(api_.adamw_amend, FtAdamWAmend{g, then, nullptr});
      ExpectClose(first, ToDouble(twin_first), {8.0 * kUnit}, "moment1");
      ExpectClose(second, ToDouble(twin_second), {8.0 * kUnit}, "moment2");
      // The bound of Check, twice.
      ExpectClose(param, ToDouble(twin), {2 * (2.0 + 16.0 * 200.0 * double{g.lr}) * kUnit},
                  "param");
    }
  }
}

TEST_P(AdamWTest, AmendsNothingWhereTheUpdateStands) {
  FtAdamW g = Settings();
  const Floats grad = Random(70, 2);
  Floats param = Random(70, 1), first = Random(70, 3), second(70, 0.5F);
  const Floats before = param;
  const float then = 0.01F, now = 0.9F, some = 2.0F, more = 5.0F;
  g.elements = g.decayed = 70;
  g.step = 1;
  g.grad = grad.data();
  g.param = param.data();
  g.moment1 = first.data();
  g.moment2 = second.data();
  g.squared_norm = &now;
  Run(api_.adamw_amend, FtAdamWAmend{g, &then, nullptr});  // neither norm is clipped
  g.not_finite = &more;
  Run(api_.adamw_amend, FtAdamWAmend{g, &then, &some});  // both updates are skipped
  EXPECT_EQ(Bits(param), Bits(before));
}

// Reverts an update. Each number has two rounding errors from the update and two from its reversal,
// of a part 1 - decay or beta of it.
TEST_P(AdamWTest, TakesBackAnUpdateThatIsSkippedAfterAll) {
  const float none = 0.0F, some = 3.0F;
  for (const std::int64_t n : kRaggedSizes) {
    FtAdamW g = Settings();
    g.elements = n;
    g.decayed = n / 2;
    g.step = 2;
    const Floats grad = Random(n, 2);
    Floats param = Random(n, 1), first = Random(n, 3, 0.1F), second = Random(n, 4, 0.1F);
    for (float& v : second) v = std::abs(v) + 0.01F;
    const Floats params = param, firsts = first, seconds = second;
    g.grad = grad.data();
    g.param = param.data();
    g.moment1 = first.data();
    g.moment2 = second.data();
    Run(api_.adamw, g);
    g.not_finite = &some;
    Run(api_.adamw_amend, FtAdamWAmend{g, nullptr, &none});
    ExpectClose(first, ToDouble(firsts), {8.0 * kUnit}, "moment1");
    ExpectClose(second, ToDouble(seconds), {8.0 * kUnit}, "moment2");
    ExpectClose(param, ToDouble(params), {2 * (2.0 + 16.0 * 200.0 * double{g.lr}) * kUnit},
                "param");
  }
}

// A power of two times the gradients, undone by the update, changes no bit.
TEST_P(AdamWTest, UndoesALossScaleThatIsAPowerOfTwo) {
  const Floats grad = Random(65, 2);
  Floats scaled = grad;
  for (float& x : scaled) x *= 1024.0F;
  const float norm = 25.0F, scaled_norm = norm * 1024.0F * 1024.0F;
  Floats results[2];
  for (const bool scales : {false, true}) {
    FtAdamW g = Settings();
    Moments moments(65, FT_F32);
    moments.BindTo(g);
    Floats param = Random(65, 1);
    g.param = param.data();
    g.grad = scales ? scaled.data() : grad.data();
    g.squared_norm = scales ? &scaled_norm : &norm;
    g.loss_scale = scales ? 1024.0F : 0.0F;
    g.elements = 65;
    g.step = 1;
    Run(api_.adamw, g);
    results[scales ? 1 : 0] = param;
  }
  EXPECT_EQ(Bits(results[0]), Bits(results[1]));
}

// Moments too small for the inverse of their scale are stored as 0.
TEST_P(AdamWTest, StoresTinyMomentsAsZero) {
  FtAdamW g = Settings();
  g.elements = 40;
  Moments moments(40, FT_I8);
  moments.BindTo(g);
  Floats param(40, 1.0F);
  const Floats grad(40, 1e-39F);
  g.param = param.data();
  g.grad = grad.data();
  g.step = 1;
  Run(api_.adamw, g);
  for (const float m : moments.Decoded(true)) EXPECT_EQ(m, 0.0F);
  for (const float v : moments.Decoded(false)) EXPECT_EQ(v, 0.0F);
}

FT_TEST_ALL_VARIANTS(AdamWTest);

}  // namespace
}  // namespace foretrain::test

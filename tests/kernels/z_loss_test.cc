#include <cmath>
#include <cstdint>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/cpu/wide_copies.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kScale = 0.125F;
constexpr float kWeight = 0.01F;
constexpr std::int64_t kRows = 4;

// Logits up to 8 in size. Targets: the first, one between, the last, and one that is none.
struct Case {
  explicit Case(std::int64_t vocab_)
      : vocab(vocab_),
        logits(Random(kRows * vocab, 1, 8.0F)),
        targets{0, static_cast<std::int32_t>(vocab / 2), static_cast<std::int32_t>(vocab - 1), -1},
        lse(kRows) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      double sum = 0.0;
      for (std::int64_t c = 0; c < vocab; ++c) sum += std::exp(double{Logit(row, c)});
      lse[static_cast<std::size_t>(row)] = static_cast<float>(std::log(sum));
    }
  }
  float Logit(std::int64_t row, std::int64_t c) const {
    return logits[static_cast<std::size_t>(row * vocab + c)];
  }
  // d/dlogit of kScale (lse - logit[target] + kWeight lse^2).
  double Gradient(std::int64_t row, std::int64_t c) const {
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target < 0) return 0.0;
    const double of_row = lse[static_cast<std::size_t>(row)];
    const double share = std::exp(double{Logit(row, c)} - of_row);
    return double{kScale} *
           (share * (1.0 + 2.0 * double{kWeight} * of_row) - (c == target ? 1.0 : 0.0));
  }

  std::int64_t vocab;
  Floats logits;
  Ids targets;
  Floats lse;
};

class ZLossTest : public KernelTest {
 protected:
  // The gradient of the cross-entropy of columns [first, first + cols), and then that of both.
  Floats Gradients(const Case& c, std::int64_t first, std::int64_t cols,
                   const float* loss_scale = nullptr) {
    Floats d;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < cols; ++i) d.push_back(c.Logit(row, first + i));
    }
    const std::int64_t all = cols == c.vocab ? 0 : c.vocab;
    Run(api_.cross_entropy_backward, FtCrossEntropyBackward{.logits = d.data(),
                                                            .targets = c.targets.data(),
                                                            .lse = c.lse.data(),
                                                            .rows = kRows,
                                                            .vocab = cols,
                                                            .first_id = first,
                                                            .all_ids = all,
                                                            .scale = kScale,
                                                            .dtype = FT_F32,
                                                            .softcap = 0.0F,
                                                            .loss_scale = loss_scale});
    FtZLossBackward g = Backward(c, first, cols, d.data());
    g.loss_scale = loss_scale;
    Run(api_.z_loss_backward, g);
    return d;
  }
  static FtZLossBackward Backward(const Case& c, std::int64_t first, std::int64_t cols, void* d) {
    return {.logits = d,
            .targets = c.targets.data(),
            .lse = c.lse.data(),
            .rows = kRows,
            .vocab = cols,
            .first_id = first,
            .all_ids = cols == c.vocab ? 0 : c.vocab,
            .scale = kScale,
            .weight = kWeight,
            .dtype = FT_F32,
            .loss_scale = nullptr};
  }
};

// lse = 2, 3 and 4 of rows that count, 5 of one that does not: 1.5 + 0.125 * 0.01 * 29.
TEST_P(ZLossTest, AddsTheSquaredNormalizerOfRowsThatCount) {
  const Floats lse = {2, 3, 4, 5};
  const Ids targets = {0, 6, 2, -1};
  Floats loss = {1.5F};
  Run(api_.z_loss,
      FtZLoss{lse.data(), targets.data(), loss.data(), kRows, /*vocabulary=*/7, kScale, kWeight});
  EXPECT_NEAR(loss[0], 1.5 + 0.125 * 0.01 * 29, 1e-6);
}

// The exponential of a difference below 24 is off by 24 + 4 roundings, and three more follow.
TEST_P(ZLossTest, GradientIsThatOfBothLosses) {
  for (const std::int64_t vocab : {std::int64_t{1}, std::int64_t{33}, std::int64_t{4097}}) {
    const Case c(vocab);
    const Floats d = Gradients(c, 0, vocab);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < kRows * vocab; ++i) {
      expected.push_back(c.Gradient(i / vocab, i % vocab));
    }
    ExpectClose(d, expected, {31.0 * kUnit * double{kScale} * 2.0}, "logits");
  }
}

TEST_P(ZLossTest, SharesOfTheVocabularyHaveTheColumnsOfTheWhole) {
  const Case c(40);
  const Floats whole = Gradients(c, 0, 40), right = Gradients(c, 24, 16);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < 16; ++i) {
      EXPECT_NEAR(right[static_cast<std::size_t>(row * 16 + i)],
                  whole[static_cast<std::size_t>(row * 40 + 24 + i)], 1e-7F);
    }
  }
}

// A scale of the loss of 2^3 is exact.
TEST_P(ZLossTest, FollowsTheScaleOfTheLoss) {
  const Case c(33);
  const float doublings = 3.0F;
  Floats plain = Gradients(c, 0, 33);
  for (float& x : plain) x *= 8.0F;
  EXPECT_EQ(Bits(Gradients(c, 0, 33, &doublings)), Bits(plain));
}

TEST_P(ZLossTest, ShortGradientsAreThoseOfFp32RoundedOnce) {
  const Case c(33);
  Floats wide = Random(kRows * 33, 2);
  for (const FtDtype dtype : {FT_BF16, FT_F16}) {
    std::vector<std::uint16_t> d(wide.size()), expected(wide.size());
    Narrow(dtype, wide.data(), d.data(), kRows * 33);
    Floats widened(wide.size());
    Widen(dtype, d.data(), widened.data(), kRows * 33);
    Run(api_.z_loss_backward, Backward(c, 0, 33, widened.data()));
    Narrow(dtype, widened.data(), expected.data(), kRows * 33);
    FtZLossBackward g = Backward(c, 0, 33, d.data());
    g.dtype = dtype;
    Run(api_.z_loss_backward, g);
    EXPECT_EQ(d, expected);
  }
}

FT_TEST_ALL_VARIANTS(ZLossTest);

}  // namespace
}  // namespace foretrain::test

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kScale = 0.125F;
const std::vector<std::int64_t> kVocabularies = {1, 31, 32, 33, 65, 4097, 9000};

// Logits up to 8 in size. Targets: the first class, the last, one between, and two out of range.
struct LossCase {
  explicit LossCase(std::int64_t vocab_)
      : vocab(vocab_),
        logits(Random(5 * vocab, 1, 8.0F)),
        targets{0, static_cast<std::int32_t>(vocab - 1), static_cast<std::int32_t>(vocab / 2), -1,
                static_cast<std::int32_t>(vocab)} {}
  std::int64_t vocab;
  Floats logits;
  Ids targets;
};

class CrossEntropyTest : public KernelTest {
 protected:
  void Forward(const LossCase& c, Floats& lse, Floats& loss, bool accumulate) {
    Run(api_.cross_entropy_forward,
        FtCrossEntropyForward{.logits = c.logits.data(),
                              .targets = c.targets.data(),
                              .lse = lse.data(),
                              .loss = loss.data(),
                              .rows = static_cast<std::int64_t>(c.targets.size()),
                              .vocab = c.vocab,
                              .scale = kScale,
                              .accumulate = accumulate,
                              .dtype = FT_F32,
                              .all_ids = 0});
  }
};

// e^x of a difference below 16 has 16 + 4 rounding errors. Sums in single precision have at most
// 4,096 terms in the lanes of 4 vectors: 4096 / 16 + 8 rounding errors. lse is rounded once more
// and is below 8 + log(9000) = 18.
TEST_P(CrossEntropyTest, ForwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t vocab : kVocabularies) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(vocab);
      const LossCase c(vocab);
      Floats lse(5, kNan);
      Floats loss(1, accumulate ? 3.0F : kNan);
      Forward(c, lse, loss, accumulate);
      const auto expected =
          reference::CrossEntropyForward(vocab, double{kScale}, ToDouble(c.logits), c.targets);
      const double bound = (20.0 + 264.0 + 18.0) * kUnit;
      ExpectClose(lse, expected.lse, {bound}, "lse");
      // Three rows count. The loss, below 3 + 3 * 26 * scale = 13, is rounded once.
      ExpectClose(loss, {expected.loss + (accumulate ? 3.0 : 0.0)},
                  {3.0 * double{kScale} * bound + 13.0 * kUnit}, "loss");
    }
  }
}

// e^(logit - lse) with a difference below 26: 26 + 8 rounding errors of at most 1, and two more
// after it.
TEST_P(CrossEntropyTest, BackwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t vocab : kVocabularies) {
    SCOPED_TRACE(vocab);
    const LossCase c(vocab);
    const Tensor lse =
        reference::CrossEntropyForward(vocab, double{kScale}, ToDouble(c.logits), c.targets).lse;
    const Floats rounded(lse.begin(), lse.end());
    Floats grads = c.logits;
    Run(api_.cross_entropy_backward,
        FtCrossEntropyBackward{grads.data(), c.targets.data(), rounded.data(), 5, vocab, 0, 0,
                               kScale, FT_F32, 0.0F, nullptr});
    ExpectClose(grads,
                reference::CrossEntropyBackward(vocab, double{kScale}, ToDouble(c.logits),
                                                c.targets, ToDouble(rounded)),
                {36.0 * double{kScale} * kUnit}, "dlogits");
  }
}

// Columns past the ids count for nothing, and their gradients become 0. Bounds as above.
TEST_P(CrossEntropyTest, PaddingHasNoPartInTheLoss) {
  for (const std::int64_t ids : kVocabularies) {
    SCOPED_TRACE(ids);
    const LossCase c(ids);
    const std::int64_t wide = (ids + 7) / 8 * 8 + 8;
    Floats logits(static_cast<std::size_t>(5 * wide), 99.0F);
    for (std::int64_t i = 0; i < 5 * ids; ++i) {
      logits[static_cast<std::size_t>(i / ids * wide + i % ids)] =
          c.logits[static_cast<std::size_t>(i)];
    }
    Floats lse(5, kNan), loss(1, kNan);
    Run(api_.cross_entropy_forward, FtCrossEntropyForward{.logits = logits.data(),
                                                          .targets = c.targets.data(),
                                                          .lse = lse.data(),
                                                          .loss = loss.data(),
                                                          .rows = 5,
                                                          .vocab = wide,
                                                          .scale = kScale,
                                                          .accumulate = 0,
                                                          .dtype = FT_F32,
                                                          .all_ids = ids});
    const auto expected =
        reference::CrossEntropyForward(ids, double{kScale}, ToDouble(c.logits), c.targets);
    const double bound = (20.0 + 264.0 + 18.0) * kUnit;
    ExpectClose(lse, expected.lse, {bound}, "lse");
    ExpectClose(loss, {expected.loss}, {3.0 * double{kScale} * bound + 13.0 * kUnit}, "loss");
    const Floats rounded(expected.lse.begin(), expected.lse.end());
    Run(api_.cross_entropy_backward,
        FtCrossEntropyBackward{logits.data(), c.targets.data(), rounded.data(), 5, wide, 0, ids,
                               kScale, FT_F32, 0.0F, nullptr});
    const Tensor grads = reference::CrossEntropyBackward(ids, double{kScale}, ToDouble(c.logits),
                                                         c.targets, ToDouble(rounded));
    for (std::int64_t i = 0; i < 5 * wide; ++i) {
      const std::int64_t row = i / wide, col = i % wide;
      const double of = col < ids ? grads[static_cast<std::size_t>(row * ids + col)] : 0.0;
      EXPECT_NEAR(logits[static_cast<std::size_t>(i)], of,
                  col < ids ? 36.0 * double{kScale} * kUnit : 0.0)
          << row << " " << col;
    }
  }
}

// Four ranks have equal numbers of columns; the last may have fewer or none. The reference uses all
// columns. Bounds as above: the sum of a rank has no more terms and is rounded once more, as is the
// sum of four.
TEST_P(CrossEntropyTest, SharesOfTheVocabularyGiveTheLossOfTheWhole) {
  for (const std::int64_t vocab : kVocabularies) {
    SCOPED_TRACE(vocab);
    const LossCase c(vocab);
    const std::int64_t each = (vocab + 3) / 4;
    Floats max(5, -std::numeric_limits<float>::infinity()), sum(5, 0.0F), picked(5, 0.0F);
    std::vector<Floats> shares;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      Floats& share = shares.emplace_back(static_cast<std::size_t>(5 * each), 99.0F);  // padding
      for (std::int64_t row = 0; row < 5; ++row) {
        for (std::int64_t i = 0; i < each && rank * each + i < vocab; ++i) {
          share[static_cast<std::size_t>(row * each + i)] =
              c.logits[static_cast<std::size_t>(row * vocab + rank * each + i)];
        }
      }
      Floats here(5, kNan);
      Run(api_.vocab_max,
          FtVocabMax{share.data(), here.data(), 5, each, rank * each, vocab, FT_F32});
      for (std::size_t row = 0; row < 5; ++row) max[row] = std::max(max[row], here[row]);
    }
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      Floats sum_here(5, kNan), picked_here(5, kNan);
      Run(api_.vocab_sums,
          FtVocabSums{shares[static_cast<std::size_t>(rank)].data(), c.targets.data(), max.data(),
                      sum_here.data(), picked_here.data(), 5, each, rank * each, vocab, FT_F32});
      for (std::size_t row = 0; row < 5; ++row) {
        sum[row] += sum_here[row];
        picked[row] += picked_here[row];
      }
    }
    Floats lse(5, kNan), loss(1, 3.0F);
    Run(api_.vocab_loss, FtVocabLoss{c.targets.data(), max.data(), sum.data(), picked.data(),
                                     lse.data(), loss.data(), 5, vocab, kScale, 1, FT_F32});
    const auto expected =
        reference::CrossEntropyForward(vocab, double{kScale}, ToDouble(c.logits), c.targets);
    const double bound = (20.0 + 264.0 + 18.0 + 4.0) * kUnit;
    ExpectClose(lse, expected.lse, {bound}, "lse");
    ExpectClose(loss, {expected.loss + 3.0}, {3.0 * double{kScale} * bound + 13.0 * kUnit}, "loss");
    const Tensor grads = reference::CrossEntropyBackward(vocab, double{kScale}, ToDouble(c.logits),
                                                         c.targets, ToDouble(lse));
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      Floats& share = shares[static_cast<std::size_t>(rank)];
      Run(api_.cross_entropy_backward,
          FtCrossEntropyBackward{share.data(), c.targets.data(), lse.data(), 5, each, rank * each,
                                 vocab, kScale, FT_F32, 0.0F, nullptr});
      Tensor expected_share;
      for (std::int64_t row = 0; row < 5; ++row) {
        for (std::int64_t i = rank * each; i < (rank + 1) * each; ++i) {
          expected_share.push_back(i < vocab ? grads[static_cast<std::size_t>(row * vocab + i)]
                                             : 0.0);
        }
      }
      ExpectClose(share, expected_share, {36.0 * double{kScale} * kUnit}, "dlogits");
    }
  }
}

// Both kernels read the same numbers in the same order.
TEST_P(CrossEntropyTest, LossAndGradientAtOnceHaveTheBitsOfTheTwoKernels) {
  for (const std::int64_t vocab : kVocabularies) {
    for (const std::int64_t padding : {0, 3}) {
      SCOPED_TRACE(vocab);
      const LossCase c(vocab + padding);
      const std::int64_t ids = padding == 0 ? 0 : vocab;
      const float softcap = padding == 0 ? 0.0F : 9.0F;
      const std::int64_t wide = vocab + padding;
      const Floats loss_scale = {2.0F};
      Floats lse(5, kNan), loss(1, 3.0F), terms(5, kNan), loss_at_once(1, 3.0F);
      Floats two = c.logits, one = c.logits;
      Run(api_.cross_entropy_forward,
          FtCrossEntropyForward{two.data(), c.targets.data(), lse.data(), loss.data(), 5, wide,
                                kScale, 1, FT_F32, ids});
      Run(api_.cross_entropy_backward,
          FtCrossEntropyBackward{two.data(), c.targets.data(), lse.data(), 5, wide, 0, ids,
                                 2.0F * kScale, FT_F32, softcap, loss_scale.data()});
      Run(api_.cross_entropy,
          FtCrossEntropy{one.data(), c.targets.data(), terms.data(), loss_at_once.data(), 5, wide,
                         ids, kScale, 2.0F * kScale, 1, FT_F32, softcap, loss_scale.data()});
      EXPECT_EQ(one, two);
      EXPECT_EQ(loss_at_once, loss);
    }
  }
}

TEST_P(CrossEntropyTest, StaysFiniteWithHugeLogits) {
  LossCase c(65);
  for (float& logit : c.logits) {
    logit *= 1e30F;
  }
  Floats lse(5);
  Floats loss(1);
  Forward(c, lse, loss, false);
  for (std::size_t row = 0; row < 5; ++row) {
    const auto begin = c.logits.begin() + static_cast<std::ptrdiff_t>(row) * 65;
    EXPECT_EQ(lse[row], *std::max_element(begin, begin + 65));
  }
}

TEST_P(CrossEntropyTest, CarriesNanToTheLossAndItsRow) {
  for (const std::size_t place : {0U, 20U, 64U}) {
    LossCase c(65);
    c.logits[65 + place] = kNan;
    Floats lse(5);
    Floats loss(1);
    Forward(c, lse, loss, false);
    EXPECT_TRUE(std::isnan(loss[0])) << place;
    for (std::size_t row = 0; row < 5; ++row) {
      EXPECT_EQ(std::isnan(lse[row]), row == 1) << place;
    }
  }
}

// The gradient of a wrong class is scale * e^(logit - lse); with lse 0 and scale 1 it is the
// exponential. Below e^-86.6, where 2^n is no normal number, kernels give 0; from e^88.73 on,
// infinity. Otherwise the relative error is 2e-7.
TEST_P(CrossEntropyTest, ExponentialIsAccurateOverItsWholeRange) {
  constexpr std::int64_t kCount = 200'001;
  Floats x;
  for (std::int64_t i = 0; i < kCount; ++i) {
    x.push_back(-100.0F + 0.001F * static_cast<float>(i));
  }
  x[7] = -std::numeric_limits<float>::infinity();
  x[8] = std::numeric_limits<float>::infinity();
  x[9] = 3e38F;
  x[10] = -3e38F;
  x[11] = 0.0F;
  x[12] = -0.0F;
  Floats y = x;
  const Ids target = {0};
  const Floats lse = {0.0F};
  Run(api_.cross_entropy_backward,
      FtCrossEntropyBackward{y.data(), target.data(), lse.data(), 1, kCount, 0, 0, 1.0F, FT_F32,
                             0.0F, nullptr});
  for (std::size_t i = 1; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (x[i] < -86.7F && IsCuda()) {
      // The reference exponential has numbers below the smallest normal one, which are 2^-149
      // apart.
      ASSERT_NEAR(static_cast<double>(y[i]), exact, 2e-7 * exact + 0x1p-149) << x[i];
    } else if (x[i] < -86.7F) {
      ASSERT_EQ(y[i], 0.0F) << x[i];
    } else if (x[i] < -86.5F) {
      ASSERT_NEAR(static_cast<double>(y[i]), exact, 3e-38) << x[i];
    } else if (x[i] < 88.72F) {
      ASSERT_NEAR(static_cast<double>(y[i]), exact, 2e-7 * exact) << x[i];
    } else if (x[i] > 88.73F) {
      ASSERT_EQ(y[i], std::numeric_limits<float>::infinity()) << x[i];
    }
  }
}

TEST(CrossEntropyReference, BackwardIsTheDifferenceGradient) {
  const Tensor logits = ToDouble(Random(3 * 6, 1));
  const Ids targets = {5, -1, 2};
  const auto forward = reference::CrossEntropyForward(6, 0.5, logits, targets);
  ExpectGradient(
      reference::CrossEntropyBackward(6, 0.5, logits, targets, forward.lse), logits,
      [&](const Tensor& x) { return reference::CrossEntropyForward(6, 0.5, x, targets).loss; },
      "logits");
}

FT_TEST_ALL_VARIANTS(CrossEntropyTest);

}  // namespace
}  // namespace foretrain::test

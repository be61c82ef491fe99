// Dropout, and attention that stores its scores, with and without dropout of its weights.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/scratch.h"
#include "tests/kernels/attention/attention_bounds.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using reference::AttentionShape;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0;

class DropoutTest : public KernelTest {
 protected:
  Bytes MaskOf(const FtDropout& of) {
    Bytes mask(static_cast<std::size_t>(of.rows * of.cols), 2);
    FtDropout call = of;
    call.mask = mask.data();
    Run(api_.dropout, call);
    return mask;
  }
};

FtDropout Drop(std::int64_t rows, std::int64_t cols, float probability) {
  FtDropout of{};
  of.rows = rows;
  of.cols = cols;
  of.sequence = rows;
  of.random = {.key = kKey, .first_sample = 0, .first_head = 0, .probability = probability};
  return of;
}

double ShareOfOnes(const Bytes& mask) {
  return std::accumulate(mask.begin(), mask.end(), 0.0) / static_cast<double>(mask.size());
}

// On average, n (1 - p) of n numbers are kept. The share has a standard deviation of sqrt(p (1 - p)
// / n).
TEST_P(DropoutTest, KeepsAShareThatIsOneLessTheProbability) {
  for (const float p : {0.05F, 0.1F, 0.5F, 0.9F}) {
    const Bytes mask = MaskOf(Drop(300, 400, p));
    const double deviation = std::sqrt(p * (1 - p) / static_cast<double>(mask.size()));
    EXPECT_NEAR(ShareOfOnes(mask), 1 - p, 4 * deviation) << p;
  }
  const Bytes all = MaskOf(Drop(30, 40, 0.0F));
  EXPECT_EQ(ShareOfOnes(all), 1.0);
}

// Neighbours in rows and columns are independent, so both are kept with probability (1 - p)^2. The
// share of n pairs has a standard deviation of at most sqrt(1 / 4 n).
TEST_P(DropoutTest, DrawsNeighboursIndependently) {
  constexpr std::int64_t kRows = 300, kCols = 400;
  const Bytes mask = MaskOf(Drop(kRows, kCols, 0.5F));
  double along = 0, across = 0;
  for (std::int64_t i = 0; i + kCols < kRows * kCols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    along += mask[at] * mask[at + 1];
    across += mask[at] * mask[at + kCols];
  }
  const double n = static_cast<double>((kRows - 1) * kCols);
  EXPECT_NEAR(along / n, 0.25, 4 * std::sqrt(0.25 / n));
  EXPECT_NEAR(across / n, 0.25, 4 * std::sqrt(0.25 / n));
}

// A token has the same mask on each rank, whichever rows, samples or pieces of sequences the rank
// has.
TEST_P(DropoutTest, DrawsTheSameForATokenWhoeverHasIt) {
  constexpr std::int64_t kCols = 37;
  FtDropout whole = Drop(24, kCols, 0.3F);  // 3 samples of 8 tokens
  whole.sequence = 8;
  const Bytes all = MaskOf(whole);
  const auto row = [&](std::int64_t r) {
    return Bytes(all.begin() + r * kCols, all.begin() + (r + 1) * kCols);
  };
  FtDropout of = whole;  // last sample, second half of its rows
  of.rows = 4;
  of.first_row = 4;
  of.random.first_sample = 2;
  const Bytes half = MaskOf(of);
  for (std::int64_t r = 0; r < 4; ++r) {
    EXPECT_EQ(Bytes(half.begin() + r * kCols, half.begin() + (r + 1) * kCols), row(20 + r));
  }
  // Positions 0, 1 and 6, 7 of samples 0 and 1, as the first of two ranks has them.
  const FtRun runs[] = {{.row = 0, .position = 0, .rows = 2}, {.row = 2, .position = 6, .rows = 2}};
  of = whole;
  of.rows = 8;
  of.sequence = 4;
  of.runs = runs;
  of.run_count = 2;
  const Bytes shared = MaskOf(of);
  const std::int64_t tokens[] = {0, 1, 6, 7, 8, 9, 14, 15};
  for (std::int64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(Bytes(shared.begin() + r * kCols, shared.begin() + (r + 1) * kCols), row(tokens[r]));
  }
  FtDropout other = whole;
  other.random.key = kKey + 1;
  EXPECT_NE(MaskOf(other), all);
}

// With p = 0.5, kept numbers double exactly.
TEST_P(DropoutTest, AddsWhatItKeepsToTheResidual) {
  constexpr std::int64_t kRows = 5, kCols = 33;
  const Floats x = Random(kRows * kCols, 1), bias = Random(kCols, 2);
  const Floats residual = Random(kRows * kCols, 3), dy = Random(kRows * kCols, 4);
  Floats out(x.size()), dx(x.size());
  Bytes mask(x.size());
  FtDropout of = Drop(kRows, kCols, 0.5F);
  of.x = x.data();
  of.bias = bias.data();
  of.residual = residual.data();
  of.out = out.data();
  of.mask = mask.data();
  Run(api_.dropout, of);
  Run(api_.dropout_backward, FtDropoutBackward{.dy = dy.data(),
                                               .mask = mask.data(),
                                               .dx = dx.data(),
                                               .elements = kRows * kCols,
                                               .probability = 0.5F,
                                               .dtype = FT_F32});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float branch = 2 * (x[i] + bias[i % kCols]);
    EXPECT_FLOAT_EQ(out[i], mask[i] != 0 ? residual[i] + branch : residual[i]) << i;
    EXPECT_EQ(dx[i], mask[i] != 0 ? 2 * dy[i] : 0.0F) << i;
  }
}

TEST_P(DropoutTest, RefusesAProbabilityOfOne) {
  float number = 0;
  FtDropout of = Drop(1, 1, 1.0F);
  of.x = of.out = &number;
  EXPECT_EQ(api_.dropout(queue_.get(), &of), FT_FAILED);
  EXPECT_NE(std::string(api_.queue_error(queue_.get())).find("[0, 1)"), std::string::npos);
}
FT_TEST_ALL_VARIANTS(DropoutTest);

// Rows [q | k | v] and the outputs of both kinds of attention.
class StandardAttentionTest : public KernelTest {
 protected:
  struct Made {
    Floats rows, out, weights, dropped, grads;
    Bytes mask;
  };

  static Floats Rows(const AttentionShape& s) {
    return Random(s.batch * s.sequence * (s.heads + 2 * s.kv_heads) * s.head_dim, 7);
  }
  static FtRandomMask Mask(float p) {
    return {.key = kKey, .first_sample = 3, .first_head = 5, .probability = p};
  }

  Made Standard(const AttentionShape& s, float p) {
    Made made{Rows(s), {}, {}, {}, {}, {}};
    const auto all = static_cast<std::size_t>(s.batch * s.heads * s.sequence * s.sequence);
    const auto width = static_cast<std::size_t>(s.batch * s.sequence * s.heads * s.head_dim);
    Floats scores(all, NAN);
    made.weights.assign(all, NAN);
    made.out.assign(width, NAN);
    if (p > 0) made.dropped.assign(all, NAN), made.mask.assign(all, 2);
    const float* q = made.rows.data();
    const float* k = q + s.heads * s.head_dim;
    const float* v = k + s.kv_heads * s.head_dim;
    FtStandardAttentionForward forward{};
    forward.q = q, forward.k = k, forward.v = v;
    forward.scores = scores.data();
    forward.weights = made.weights.data();
    if (p > 0) forward.mask = made.mask.data(), forward.dropped = made.dropped.data();
    forward.out = made.out.data();
    forward.batch = s.batch, forward.sequence = s.sequence;
    forward.row_stride = (s.heads + 2 * s.kv_heads) * s.head_dim;
    forward.heads = static_cast<std::int32_t>(s.heads);
    forward.kv_heads = static_cast<std::int32_t>(s.kv_heads);
    forward.head_dim = static_cast<std::int32_t>(s.head_dim);
    forward.window = s.window;
    forward.random = Mask(p);
    Run(api_.standard_attention_forward, forward);
    const Floats dout = Random(s.batch * s.sequence * s.heads * s.head_dim, 8);
    made.grads.assign(made.rows.size(), NAN);
    FtStandardAttentionBackward backward{};
    backward.q = q, backward.k = k, backward.v = v;
    backward.weights = made.weights.data();
    if (p > 0) backward.mask = made.mask.data(), backward.dropped = made.dropped.data();
    backward.dout = dout.data();
    backward.d_scores = scores.data();
    backward.dq = made.grads.data();
    backward.dk = made.grads.data() + (k - q);
    backward.dv = made.grads.data() + (v - q);
    backward.batch = s.batch, backward.sequence = s.sequence;
    backward.row_stride = forward.row_stride;
    backward.heads = forward.heads, backward.kv_heads = forward.kv_heads;
    backward.head_dim = forward.head_dim;
    backward.probability = p;
    Run(api_.standard_attention_backward, backward);
    return made;
  }

  Made Flash(const AttentionShape& s, float p) {
    Made made{Rows(s), {}, {}, {}, {}, {}};
    made.out.assign(static_cast<std::size_t>(s.batch * s.sequence * s.heads * s.head_dim), NAN);
    Floats lse(static_cast<std::size_t>(s.batch * s.sequence * s.heads), NAN);
    const float* q = made.rows.data();
    const float* k = q + s.heads * s.head_dim;
    const float* v = k + s.kv_heads * s.head_dim;
    FtAttentionForward forward{};
    forward.q = q, forward.k = k, forward.v = v;
    forward.out = made.out.data(), forward.lse = lse.data();
    forward.batch = s.batch, forward.sequence = s.sequence;
    forward.row_stride = (s.heads + 2 * s.kv_heads) * s.head_dim;
    forward.heads = static_cast<std::int32_t>(s.heads);
    forward.kv_heads = static_cast<std::int32_t>(s.kv_heads);
    forward.head_dim = static_cast<std::int32_t>(s.head_dim);
    forward.window = s.window;
    forward.random = Mask(p);
    Run(api_.attention_forward, forward);
    const Floats dout = Random(s.batch * s.sequence * s.heads * s.head_dim, 8);
    made.grads.assign(made.rows.size(), NAN);
    FtAttentionBackward backward{};
    backward.q = q, backward.k = k, backward.v = v;
    backward.out = made.out.data(), backward.lse = lse.data(), backward.dout = dout.data();
    backward.dq = made.grads.data();
    backward.dk = made.grads.data() + (k - q);
    backward.dv = made.grads.data() + (v - q);
    backward.batch = s.batch, backward.sequence = s.sequence;
    backward.row_stride = forward.row_stride;
    backward.heads = forward.heads, backward.kv_heads = forward.kv_heads;
    backward.head_dim = forward.head_dim;
    backward.window = s.window;
    backward.random = Mask(p);
    Run(api_.attention_backward, backward);
    return made;
  }

  // Both kinds add at most 2 (sequence + head_dim) products of numbers up to 1, or 1 / (1 - p) with
  // dropout, in fp32. Gradients of scores multiply two such sums.
  void ExpectAlike(const AttentionShape& s, float p) {
    const Made standard = Standard(s, p), flash = Flash(s, p);
    const double kept = 1 / (1.0 - p), terms = static_cast<double>(s.sequence + s.head_dim);
    const double tolerance = 8 * kUnit * kept * kept * std::sqrt(static_cast<double>(s.head_dim)) *
                             terms * std::sqrt(terms);
    ExpectClose(standard.out, ToDouble(flash.out), Tensor{tolerance}, "out");
    ExpectClose(standard.grads, ToDouble(flash.grads), Tensor{tolerance}, "grads");
  }
};

TEST_P(StandardAttentionTest, ComputesWhatFlashAttentionComputes) {
  for (const std::int64_t sequence : {1, 7, 33, 150}) {
    for (const std::int64_t window : {0, 5}) {
      for (const std::int64_t kv_heads : {1, 2, 4}) {
        ExpectAlike({.batch = 2,
                     .sequence = sequence,
                     .heads = 4,
                     .kv_heads = kv_heads,
                     .head_dim = 12,
                     .window = window},
                    0.0F);
      }
    }
  }
}

// Both kinds drop the same numbers, also across blocks of queries and keys.
TEST_P(StandardAttentionTest, DropsWhatFlashAttentionDrops) {
  for (const std::int64_t sequence : {1, 7, 33, 2 * static_cast<int>(kForwardQueries) + 70}) {
    for (const float p : {0.1F, 0.5F}) {
      ExpectAlike({.batch = 2, .sequence = sequence, .heads = 4, .kv_heads = 2, .head_dim = 12}, p);
    }
  }
}

// The weights of a row add up to 1. Dropped weights are 0, kept ones are divided by 1 - p.
TEST_P(StandardAttentionTest, WritesWeightsAndWhatIsLeftOfThem) {
  const AttentionShape s{.batch = 2, .sequence = 9, .heads = 2, .kv_heads = 1, .head_dim = 8};
  const Made made = Standard(s, 0.5F);
  for (std::int64_t row = 0; row < s.batch * s.heads * s.sequence; ++row) {
    float sum = 0;
    for (std::int64_t j = 0; j < s.sequence; ++j) {
      const auto at = static_cast<std::size_t>(row * s.sequence + j);
      sum += made.weights[at];
      EXPECT_EQ(made.dropped[at], made.mask[at] != 0 ? 2 * made.weights[at] : 0.0F);
      if (j > row % s.sequence) {
        EXPECT_EQ(made.weights[at], 0.0F);
      }
    }
    EXPECT_NEAR(sum, 1.0, 9 * kUnit);
  }
}
FT_TEST_ALL_VARIANTS(StandardAttentionTest);

}  // namespace
}  // namespace foretrain::test

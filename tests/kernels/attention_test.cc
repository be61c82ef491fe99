#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/cpu/scratch.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using reference::AttentionShape;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string Name(const AttentionShape& s) {
  return "batch " + std::to_string(s.batch) + " sequence " + std::to_string(s.sequence) +
         " heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " head_dim " +
         std::to_string(s.head_dim);
}

// q, k and v as slices of rows [q | k | v | gap], as a fused projection leaves them; the gap holds
// NaN.
struct Packed {
  static constexpr std::int64_t kGap = 3;

  explicit Packed(const AttentionShape& shape)
      : s(shape),
        rows(s.batch * s.sequence),
        row_stride((s.heads + 2 * s.kv_heads) * s.head_dim + kGap),
        data(static_cast<std::size_t>(rows * row_stride), kNan) {}

  std::int64_t KeyAt() const { return s.heads * s.head_dim; }
  std::int64_t ValueAt() const { return (s.heads + s.kv_heads) * s.head_dim; }

  // Writes x[rows, width] into the columns from `at` on, or reads it.
  void Put(std::int64_t at, std::int64_t width, const Floats& x) {
    for (std::int64_t i = 0; i < rows * width; ++i) {
      data[Place(at, width, i)] = x[static_cast<std::size_t>(i)];
    }
  }
  Floats Get(std::int64_t at, std::int64_t width) const {
    Floats x;
    for (std::int64_t i = 0; i < rows * width; ++i) {
      x.push_back(data[Place(at, width, i)]);
    }
    return x;
  }
  std::size_t Place(std::int64_t at, std::int64_t width, std::int64_t i) const {
    return static_cast<std::size_t>(i / width * row_stride + at + i % width);
  }
  void ExpectGapIsNan() const {
    for (const float v : Get(row_stride - kGap, kGap)) {
      ASSERT_TRUE(std::isnan(v)) << "a number was written beside the slices";
    }
  }

  AttentionShape s;
  std::int64_t rows, row_stride;
  Floats data;
};

struct Inputs {
  explicit Inputs(const AttentionShape& s, float size = 2.0F)
      : q(Random(s.batch * s.sequence * s.heads * s.head_dim, 1, size)),
        k(Random(s.batch * s.sequence * s.kv_heads * s.head_dim, 2, size)),
        v(Random(s.batch * s.sequence * s.kv_heads * s.head_dim, 3)),
        dout(Random(s.batch * s.sequence * s.heads * s.head_dim, 4)) {}
  Floats q, k, v, dout;
};

double Largest(const Tensor& x) {
  double most = 0.0;
  for (const double v : x) {
    most = std::max(most, std::abs(v));
  }
  return most;
}

// Largest sum over head_dim of |q| |k| * scale: a score's error is at most (head_dim + 4) * unit of
// it (the products' sum, and roundings of the scale and of the scaled operand).
double ScoreError(const AttentionShape& s, const Tensor& q, const Tensor& k) {
  const double bound = Largest(q) * Largest(k) * std::sqrt(static_cast<double>(s.head_dim));
  return (static_cast<double>(s.head_dim) + 4.0) * kUnit * bound;
}

// Relative error of a probability before it is divided by its sum: two scores' errors (its own and
// the maximum's or the lse's), and 2^x with its subtraction, whose result can be as large as the
// difference of scores (8 roundings of the largest score's size are within ScoreError as well).
double ProbabilityError(const AttentionShape& s, const Tensor& q, const Tensor& k) {
  return 3.0 * ScoreError(s, q, k) + 8.0 * kUnit;
}

class AttentionTest : public KernelTest {
 protected:
  void Forward(const AttentionShape& s, const Inputs& in, Floats& out, Floats& lse) {
    Packed packed(s);
    packed.Put(0, s.heads * s.head_dim, in.q);
    packed.Put(packed.KeyAt(), s.kv_heads * s.head_dim, in.k);
    packed.Put(packed.ValueAt(), s.kv_heads * s.head_dim, in.v);
    out.assign(in.q.size(), kNan);
    lse.assign(static_cast<std::size_t>(packed.rows * s.heads), kNan);
    const float* data = packed.data.data();
    Run(api_.attention_forward,
        FtAttentionForward{.q = data,
                           .k = data + packed.KeyAt(),
                           .v = data + packed.ValueAt(),
                           .out = out.data(),
                           .lse = lse.data(),
                           .batch = s.batch,
                           .sequence = s.sequence,
                           .row_stride = packed.row_stride,
                           .heads = static_cast<std::int32_t>(s.heads),
                           .kv_heads = static_cast<std::int32_t>(s.kv_heads),
                           .head_dim = static_cast<std::int32_t>(s.head_dim),
                           .dtype = FT_F32});
  }

  // out is a mean of values: each probability is off by ProbabilityError twice (itself and in the
  // sum), and the sum of `sequence` products and a division round on top.
  void CheckForward(const AttentionShape& s) {
    SCOPED_TRACE(Name(s));
    const Inputs in(s);
    Floats out;
    Floats lse;
    Forward(s, in, out, lse);
    const Tensor q = ToDouble(in.q);
    const Tensor k = ToDouble(in.k);
    const reference::AttentionOutputs expected =
        reference::AttentionForward(s, q, k, ToDouble(in.v));
    const Tensor sizes = reference::AttentionForward(s, q, k, Absolute(ToDouble(in.v))).out;
    const double roundings = (2.0 * static_cast<double>(s.sequence) + 4.0) * kUnit;
    const double error = 2.0 * ProbabilityError(s, q, k) + roundings;
    ExpectClose(out, expected.out, Scaled(sizes, error), "out");
    ExpectClose(lse, expected.lse, {error + kUnit * 4.0 * Largest(expected.lse)}, "lse");
  }

  struct Grads {
    Floats q, k, v;
  };
  Grads Backward(const AttentionShape& s, const Inputs& in, const Floats& out, const Floats& lse) {
    Packed packed(s);
    packed.Put(0, s.heads * s.head_dim, in.q);
    packed.Put(packed.KeyAt(), s.kv_heads * s.head_dim, in.k);
    packed.Put(packed.ValueAt(), s.kv_heads * s.head_dim, in.v);
    Packed grads(s);
    const float* data = packed.data.data();
    float* to = grads.data.data();
    Run(api_.attention_backward,
        FtAttentionBackward{.q = data,
                            .k = data + packed.KeyAt(),
                            .v = data + packed.ValueAt(),
                            .out = out.data(),
                            .lse = lse.data(),
                            .dout = in.dout.data(),
                            .dq = to,
                            .dk = to + packed.KeyAt(),
                            .dv = to + packed.ValueAt(),
                            .batch = s.batch,
                            .sequence = s.sequence,
                            .row_stride = packed.row_stride,
                            .heads = static_cast<std::int32_t>(s.heads),
                            .kv_heads = static_cast<std::int32_t>(s.kv_heads),
                            .head_dim = static_cast<std::int32_t>(s.head_dim),
                            .dtype = FT_F32});
    grads.ExpectGapIsNan();
    return {grads.Get(0, s.heads * s.head_dim), grads.Get(packed.KeyAt(), s.kv_heads * s.head_dim),
            grads.Get(packed.ValueAt(), s.kv_heads * s.head_dim)};
  }

  // A gradient is a sum over scores of p * (dp - delta) * x. Sizes: with every factor's size and
  // "+" for "-", from the reference itself: |dout|, |v|, and -|out| for out, so that dp - delta
  // becomes their sum; |q| and |k| where they are summed. Those two change the scores, so the sizes
  // are bounded with the largest |q| and |k| instead.
  void CheckBackward(const AttentionShape& s) {
    SCOPED_TRACE(Name(s));
    const Inputs in(s);
    const Tensor q = ToDouble(in.q);
    const Tensor k = ToDouble(in.k);
    const Tensor v = ToDouble(in.v);
    const Tensor dout = ToDouble(in.dout);
    const reference::AttentionOutputs forward = reference::AttentionForward(s, q, k, v);
    const Floats out(forward.out.begin(), forward.out.end());
    const Floats lse(forward.lse.begin(), forward.lse.end());
    const reference::AttentionGrads expected =
        reference::AttentionBackward(s, q, k, v, ToDouble(out), ToDouble(lse), dout);
    const Grads grads = Backward(s, in, out, lse);

    const double sums = static_cast<double>(
        s.sequence * (s.heads / s.kv_heads));  // longest sum, over queries of a group
    const double relative =
        ProbabilityError(s, q, k) + kUnit * 4.0 * Largest(forward.lse) + (sums + 8.0) * kUnit;
    const Tensor dv_sizes =
        reference::AttentionBackward(s, q, k, v, forward.out, forward.lse, Absolute(dout)).v;
    ExpectClose(grads.v, expected.v, Scaled(dv_sizes, relative), "dv");

    // |ds| <= scale * p * 2 * head_dim * |dout| |v|, and p sums to 1 over the keys of a query, to
    // at most the number of queries over those of a key. dp and delta are sums of head_dim
    // products.
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
    const double ds = scale * 2.0 * static_cast<double>(s.head_dim) * Largest(dout) * Largest(v);
    const double ds_error = relative + (static_cast<double>(s.head_dim) + 4.0) * kUnit;
    ExpectClose(grads.q, expected.q, {ds_error * ds * Largest(k)}, "dq");
    const Tensor weights(dout.size(), 1.0);
    const Tensor p_sums =
        reference::AttentionBackward(s, q, k, v, forward.out, forward.lse, weights)
            .v;  // of p over queries
    ExpectClose(grads.k, expected.k, Scaled(p_sums, ds_error * ds * Largest(q)), "dk");
  }
};

TEST_P(AttentionTest, ForwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t sequence : kRaggedSizes) {
    for (const std::int64_t head_dim : {1, 31, 32, 33, 65}) {
      CheckForward(
          {.batch = 2, .sequence = sequence, .heads = 2, .kv_heads = 2, .head_dim = head_dim});
    }
  }
}

TEST_P(AttentionTest, BackwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t sequence : kRaggedSizes) {
    for (const std::int64_t head_dim : {1, 31, 32, 33, 65}) {
      CheckBackward(
          {.batch = 2, .sequence = sequence, .heads = 2, .kv_heads = 2, .head_dim = head_dim});
    }
  }
}

// Past the blocks of queries and keys, with a last block of one and of many rows.
TEST_P(AttentionTest, EqualsTheReferenceAcrossBlocks) {
  for (const std::int64_t sequence :
       {kForwardKeys + 1, kBackwardKeys + 1, 2 * kForwardQueries + 70}) {
    const AttentionShape s{
        .batch = 1, .sequence = sequence, .heads = 1, .kv_heads = 1, .head_dim = 64};
    CheckForward(s);
    CheckBackward(s);
  }
}

TEST_P(AttentionTest, SharesKeyHeadsAmongGroupsOfQueryHeads) {
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    const AttentionShape s{
        .batch = 2, .sequence = 37, .heads = 6, .kv_heads = kv_heads, .head_dim = 16};
    CheckForward(s);
    CheckBackward(s);
  }
}

TEST_P(AttentionTest, TakesTheLargestHead) {
  const AttentionShape s{
      .batch = 1, .sequence = 20, .heads = 1, .kv_heads = 1, .head_dim = kMaxHeadDim};
  CheckForward(s);
  CheckBackward(s);
}

// One huge score each: e^x overflows unless the maximum is taken off, and every other probability
// is 0.
TEST_P(AttentionTest, StaysFiniteWithHugeScores) {
  const AttentionShape s{.batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_dim = 8};
  Inputs in(s);
  for (std::size_t i = 0; i < in.q.size(); ++i) {
    in.q[i] = 100.0F;
    in.k[i] = i / 8 == 5
                  ? 100.0F
                  : -100.0F;  // key 5 scores 8 * 1e4 / sqrt(8), the others the negative of it
  }
  Floats out;
  Floats lse;
  Forward(s, in, out, lse);
  for (std::size_t i = 5 * 8; i < out.size(); ++i) {
    ASSERT_EQ(out[i], in.v[5 * 8 + i % 8]) << i;  // probability 1 exactly
  }
  const Grads grads = Backward(s, in, out, lse);
  for (const float g : grads.q) {
    ASSERT_TRUE(std::isfinite(g));
  }
}

// A position's output must not depend on later ones, to the bit.
TEST_P(AttentionTest, IgnoresLaterPositions) {
  const AttentionShape s{.batch = 1, .sequence = 150, .heads = 1, .kv_heads = 1, .head_dim = 24};
  Inputs in(s);
  Floats out;
  Floats lse;
  Forward(s, in, out, lse);
  for (std::size_t i = 100 * 24; i < in.k.size(); ++i) {
    in.k[i] = 50.0F;
    in.v[i] = -1e6F;
  }
  Floats changed;
  Floats changed_lse;
  Forward(s, in, changed, changed_lse);
  for (std::size_t i = 0; i < 100 * 24; ++i) {
    ASSERT_EQ(out[i], changed[i]) << i;
  }
  EXPECT_NE(out[100 * 24], changed[100 * 24]);
}

TEST_P(AttentionTest, CarriesNanOfAKeyToEveryLaterQuery) {
  const AttentionShape s{.batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_dim = 24};
  Inputs in(s);
  in.k[3 * 24] = kNan;
  Floats out;
  Floats lse;
  Forward(s, in, out, lse);
  for (std::size_t i = 3 * 24; i < out.size(); ++i) {
    ASSERT_TRUE(std::isnan(out[i])) << i;
  }
  for (std::size_t i = 0; i < 3 * 24; ++i) {
    ASSERT_FALSE(std::isnan(out[i])) << i;
  }
}

TEST(AttentionReference, BackwardIsTheDifferenceGradient) {
  const AttentionShape s{.batch = 2, .sequence = 4, .heads = 4, .kv_heads = 2, .head_dim = 3};
  const Inputs in(s, 1.0F);
  const Tensor q = ToDouble(in.q);
  const Tensor k = ToDouble(in.k);
  const Tensor v = ToDouble(in.v);
  const Tensor dout = ToDouble(in.dout);
  const reference::AttentionOutputs forward = reference::AttentionForward(s, q, k, v);
  const reference::AttentionGrads grads =
      reference::AttentionBackward(s, q, k, v, forward.out, forward.lse, dout);
  ExpectGradient(
      grads.q, q,
      [&](const Tensor& x) { return Dot(reference::AttentionForward(s, x, k, v).out, dout); }, "q");
  ExpectGradient(
      grads.k, k,
      [&](const Tensor& x) { return Dot(reference::AttentionForward(s, q, x, v).out, dout); }, "k");
  ExpectGradient(
      grads.v, v,
      [&](const Tensor& x) { return Dot(reference::AttentionForward(s, q, k, x).out, dout); }, "v");
}

FT_TEST_ALL_VARIANTS(AttentionTest);

}  // namespace
}  // namespace foretrain::test

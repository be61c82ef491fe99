// Tests attention over whole sequences against its reference. All tests share one fixture, which
// packs inputs as a fused projection stores them.
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "kernels/cpu/scratch.h"
#include "tests/kernels/attention/attention_bounds.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using reference::AttentionShape;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kCudaMaxHeadDim = 256;

std::string Name(const AttentionShape& s) {
  return "batch " + std::to_string(s.batch) + " sequence " + std::to_string(s.sequence) +
         " heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " head_dim " +
         std::to_string(s.head_dim) + " window " + std::to_string(s.window) + " value_dim " +
         std::to_string(s.value_dim) + " softcap " + std::to_string(s.softcap) + " alibi_heads " +
         std::to_string(s.alibi_heads);
}

// q, k and v as slices of rows [q | k | v | gap], as a fused projection stores them. The gap holds
// NaN.
struct Packed {
  static constexpr std::int64_t kGap = 3;

  explicit Packed(const AttentionShape& shape)
      : s(shape),
        rows(s.batch * s.sequence),
        row_stride((s.heads + s.kv_heads) * s.head_dim + s.kv_heads * s.ValueDim() + kGap),
        data(static_cast<std::size_t>(rows * row_stride), kNan) {}

  std::int64_t KeyAt() const { return s.heads * s.head_dim; }
  std::int64_t ValueAt() const { return (s.heads + s.kv_heads) * s.head_dim; }

  // Writes x[rows, width] into the columns from `at` on; Get reads them.
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
        v(Random(s.batch * s.sequence * s.kv_heads * s.ValueDim(), 3)),
        dout(Random(s.batch * s.sequence * s.heads * s.ValueDim(), 4)) {}
  Floats q, k, v, dout;
};

class AttentionTest : public KernelTest {
 protected:
  void Forward(const AttentionShape& s, const Inputs& in, Floats& out, Floats& lse) {
    Packed packed(s);
    packed.Put(0, s.heads * s.head_dim, in.q);
    packed.Put(packed.KeyAt(), s.kv_heads * s.head_dim, in.k);
    packed.Put(packed.ValueAt(), s.kv_heads * s.ValueDim(), in.v);
    out.assign(in.dout.size(), kNan);
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
                           .dtype = FT_F32,
                           .window = s.window,
                           .scale = 0.0F,
                           .value_dim = static_cast<std::int32_t>(s.value_dim),
                           .alibi_heads = static_cast<std::int32_t>(s.alibi_heads),
                           .first_head = static_cast<std::int32_t>(s.first_head),
                           .softcap = static_cast<float>(s.softcap),
                           .random = {},
                           .document_starts = nullptr});
  }

  void CheckForward(const AttentionShape& s) {
    SCOPED_TRACE(Name(s));
    const Inputs in(s);
    Floats out;
    Floats lse;
    Forward(s, in, out, lse);
    const Tensor q = ToDouble(in.q);
    const Tensor k = ToDouble(in.k);
    const Tensor v = ToDouble(in.v);
    const reference::AttentionOutputs expected = reference::AttentionForward(s, q, k, v);
    const AttentionBounds bounds = BoundAttention(s, q, k, v, ToDouble(in.dout));
    ExpectClose(out, expected.out, bounds.out, "out");
    ExpectClose(lse, expected.lse, bounds.lse, "lse");
  }

  struct Grads {
    Floats q, k, v;
  };
  Grads Backward(const AttentionShape& s, const Inputs& in, const Floats& out, const Floats& lse) {
    Packed packed(s);
    packed.Put(0, s.heads * s.head_dim, in.q);
    packed.Put(packed.KeyAt(), s.kv_heads * s.head_dim, in.k);
    packed.Put(packed.ValueAt(), s.kv_heads * s.ValueDim(), in.v);
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
                            .dtype = FT_F32,
                            .window = s.window,
                            .scale = 0.0F,
                            .value_dim = static_cast<std::int32_t>(s.value_dim),
                            .alibi_heads = static_cast<std::int32_t>(s.alibi_heads),
                            .first_head = static_cast<std::int32_t>(s.first_head),
                            .softcap = static_cast<float>(s.softcap),
                            .random = {},
                            .document_starts = nullptr});
    grads.ExpectGapIsNan();
    return {grads.Get(0, s.heads * s.head_dim), grads.Get(packed.KeyAt(), s.kv_heads * s.head_dim),
            grads.Get(packed.ValueAt(), s.kv_heads * s.ValueDim())};
  }

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

    const AttentionBounds bounds = BoundAttention(s, q, k, v, dout);
    ExpectClose(grads.q, expected.q, bounds.q, "dq");
    ExpectClose(grads.k, expected.k, bounds.k, "dk");
    ExpectClose(grads.v, expected.v, bounds.v, "dv");
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

// Sequences longer than the blocks of queries and keys; the last block has one row or many.
TEST_P(AttentionTest, EqualsTheReferenceAcrossBlocks) {
  for (const std::int64_t sequence :
       {kForwardKeys + 1, kBackwardKeys + 1, 2 * kForwardQueries + 70}) {
    const AttentionShape s{
        .batch = 1, .sequence = sequence, .heads = 1, .kv_heads = 1, .head_dim = 64};
    CheckForward(s);
    CheckBackward(s);
  }
}

TEST_P(AttentionTest, SeesTheKeysOfItsWindowAlone) {
  for (const std::int64_t sequence : kRaggedSizes) {
    for (const std::int64_t window : {1, 2, 7, 16, 33}) {
      const AttentionShape s{.batch = 2,
                             .sequence = sequence,
                             .heads = 2,
                             .kv_heads = 1,
                             .head_dim = 33,
                             .window = window};
      CheckForward(s);
      CheckBackward(s);
    }
  }
}

// Windows that start in the block of the query, in the one before, and several blocks before. Some
// blocks have keys that no query sees.
TEST_P(AttentionTest, SeesTheKeysOfItsWindowAcrossBlocks) {
  for (const std::int64_t sequence : {kBackwardKeys + 1, 3 * kForwardQueries + 70}) {
    for (const std::int64_t window : {3, 64, 97, 128, 200, 300}) {
      const AttentionShape s{.batch = 1,
                             .sequence = sequence,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 64,
                             .window = window};
      CheckForward(s);
      CheckBackward(s);
    }
  }
}

// A window as long as the sequence changes no bit.
TEST_P(AttentionTest, IsWholeWithAWindowOfTheSequence) {
  AttentionShape s{.batch = 1, .sequence = 150, .heads = 2, .kv_heads = 1, .head_dim = 24};
  const Inputs in(s);
  Floats out, lse, windowed, windowed_lse;
  Forward(s, in, out, lse);
  const Grads grads = Backward(s, in, out, lse);
  s.window = 150;
  Forward(s, in, windowed, windowed_lse);
  const Grads windowed_grads = Backward(s, in, out, lse);
  EXPECT_EQ(Bits(windowed), Bits(out));
  EXPECT_EQ(Bits(windowed_lse), Bits(lse));
  EXPECT_EQ(Bits(windowed_grads.q), Bits(grads.q));
  EXPECT_EQ(Bits(windowed_grads.k), Bits(grads.k));
}

// Positions before the window change no bit.
TEST_P(AttentionTest, IgnoresPositionsBeforeTheWindow) {
  const AttentionShape s{
      .batch = 1, .sequence = 400, .heads = 1, .kv_heads = 1, .head_dim = 24, .window = 40};
  Inputs in(s);
  Floats out, lse, changed, changed_lse;
  Forward(s, in, out, lse);
  for (std::size_t i = 0; i < 200 * 24; ++i) {
    in.k[i] = 50.0F;
    in.v[i] = -1e6F;
  }
  Forward(s, in, changed, changed_lse);
  for (std::size_t i = 239 * 24; i < out.size(); ++i) {
    ASSERT_EQ(out[i], changed[i]) << i;
  }
  EXPECT_NE(out[238 * 24], changed[238 * 24]);  // sees position 199, the last one changed
}

TEST_P(AttentionTest, SharesKeyHeadsAmongGroupsOfQueryHeads) {
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    const AttentionShape s{
        .batch = 2, .sequence = 37, .heads = 6, .kv_heads = kv_heads, .head_dim = 16};
    CheckForward(s);
    CheckBackward(s);
  }
}

// Values narrower and wider than queries and keys, with and without whole vectors, longer than a
// block.
TEST_P(AttentionTest, TakesHeadsOfValuesOfAnotherWidth) {
  for (const std::int64_t value_dim : {1, 16, 20, 33, 64}) {
    for (const std::int64_t sequence : {1, 7, 37, 150}) {
      const AttentionShape s{.batch = 2,
                             .sequence = sequence,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 24,
                             .value_dim = value_dim};
      CheckForward(s);
      CheckBackward(s);
    }
  }
}

TEST_P(AttentionTest, CapsScores) {
  for (const double softcap : {0.5, 5.0}) {
    for (const std::int64_t window : {0, 9}) {
      const AttentionShape s{.batch = 1,
                             .sequence = 150,
                             .heads = 2,
                             .kv_heads = 1,
                             .head_dim = 20,
                             .window = window,
                             .softcap = softcap};
      CheckForward(s);
      CheckBackward(s);
    }
  }
}

// 8 heads; 6 heads, whose ALiBi slopes form two series; and a rank with the last 2 of 6 heads.
TEST_P(AttentionTest, TakesDistancesFromScores) {
  for (const auto& [heads, all, first] : {std::tuple{8, 8, 0}, {6, 6, 0}, {2, 6, 4}}) {
    const AttentionShape s{.batch = 2,
                           .sequence = 150,
                           .heads = heads,
                           .kv_heads = heads,
                           .head_dim = 12,
                           .alibi_heads = all,
                           .first_head = first};
    CheckForward(s);
    CheckBackward(s);
  }
}

TEST_P(AttentionTest, TakesTheLargestHead) {
  const AttentionShape s{.batch = 1,
                         .sequence = 20,
                         .heads = 1,
                         .kv_heads = 1,
                         .head_dim = IsCuda() ? kCudaMaxHeadDim : kMaxHeadDim};
  CheckForward(s);
  CheckBackward(s);
}

// One huge score per query. e^x overflows unless the maximum is subtracted; all other probabilities
// are 0.
TEST_P(AttentionTest, StaysFiniteWithHugeScores) {
  const AttentionShape s{.batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_dim = 8};
  Inputs in(s);
  for (std::size_t i = 0; i < in.q.size(); ++i) {
    in.q[i] = 100.0F;
    in.k[i] =
        i / 8 == 5 ? 100.0F : -100.0F;  // key 5 scores 8 * 1e4 / sqrt(8), the others minus that
  }
  Floats out;
  Floats lse;
  Forward(s, in, out, lse);
  for (std::size_t i = 5 * 8; i < out.size(); ++i) {
    ASSERT_EQ(out[i], in.v[5 * 8 + i % 8]) << i;  // probability exactly 1
  }
  const Grads grads = Backward(s, in, out, lse);
  for (const float g : grads.q) {
    ASSERT_TRUE(std::isfinite(g));
  }
}

// The output at a position does not depend on later positions, bit by bit.
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

// The gradient of query 5's output reaches query 5 and keys and values 0 to 5, and nothing else.
TEST_P(AttentionTest, CarriesNanOfAnOutputGradientToWhatItDependsOn) {
  const AttentionShape s{.batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_dim = 24};
  Inputs in(s);
  Floats out;
  Floats lse;
  Forward(s, in, out, lse);
  in.dout[5 * 24 + 1] = kNan;
  const Grads grads = Backward(s, in, out, lse);
  for (std::size_t i = 0; i < grads.q.size(); ++i) {
    ASSERT_EQ(std::isnan(grads.q[i]), i / 24 == 5) << i;
  }
  for (std::size_t i = 0; i <= 5; ++i) {
    ASSERT_TRUE(std::isnan(grads.k[i * 24])) << i;
    ASSERT_TRUE(std::isnan(grads.v[i * 24 + 1])) << i;
  }
}

FT_TEST_ALL_VARIANTS(AttentionTest);

}  // namespace
}  // namespace foretrain::test

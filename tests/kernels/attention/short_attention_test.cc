// Tests attention of 16-bit tensors with aligned rows, which runs on tensor cores, against the
// reference: heads of every padded width, windows, groups, ragged tiles, merged parts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/attention/short_attention.h"

namespace foretrain::test {
namespace {

AttentionShape Shape(std::int64_t sequence, std::int64_t head_dim) {
  return {.batch = 1, .sequence = sequence, .heads = 1, .kv_heads = 1, .head_dim = head_dim};
}

// Heads of each kernel's width, and narrower heads padded to it.
TEST_P(ShortAttentionTest, EqualsTheReferenceForHeadsOfEveryWidth) {
  for (const std::int64_t head_dim : {8, 64, 72, 80, 96, 120, 128}) {
    Check(Shape(70, head_dim), kBf16);
  }
  for (const std::int64_t head_dim : {64, 80, 128}) Check(Shape(33, head_dim), kFp16);
}

// Lengths around the edges of tiles of 32, 64 and 128 rows.
TEST_P(ShortAttentionTest, EqualsTheReferenceAtRaggedLengths) {
  for (const std::int64_t sequence : {1, 15, 31, 32, 63, 64, 65, 127, 128, 129, 161}) {
    Check(Shape(sequence, 64), kBf16);
  }
  Check(Shape(129, 128), kBf16);
  Check(Shape(129, 96), kFp16);
}

TEST_P(ShortAttentionTest, SeesTheKeysOfItsWindowAlone) {
  for (const std::int64_t window : {1, 7, 32, 64, 100, 200}) {
    AttentionShape s = Shape(200, 64);
    s.window = window;
    Check(s, kBf16);
  }
}

TEST_P(ShortAttentionTest, SharesKeyHeadsAmongGroupsOfSamples) {
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    Check({.batch = 2, .sequence = 37, .heads = 4, .kv_heads = kv_heads, .head_dim = 64}, kBf16);
  }
}

TEST_P(ShortAttentionTest, TakesHeadsOfValuesOfAnotherWidth) {
  for (const std::int64_t value_dim : {8, 40, 96}) {
    Check({.batch = 1,
           .sequence = 70,
           .heads = 2,
           .kv_heads = 1,
           .head_dim = 64,
           .value_dim = value_dim},
          kBf16);
  }
}

// Later positions change no bit of the result.
TEST_P(ShortAttentionTest, IgnoresLaterPositions) {
  const AttentionShape s = Shape(150, 64);
  const ShortInputs in(s, FT_BF16);
  Codes q = CodesOf(FT_BF16, in.q), k = CodesOf(FT_BF16, in.k), v = CodesOf(FT_BF16, in.v);
  const auto forward = [&](Codes& out, Floats& lse) {
    out.assign(q.size(), 0);
    lse.assign(150, 0.0F);
    auto g = Sized<FtAttentionForward>(s, kBf16, 64);
    g.q = q.data(), g.k = k.data(), g.v = v.data(), g.out = out.data(), g.lse = lse.data();
    Run(api_.attention_forward, g);
  };
  Codes out, changed;
  Floats lse, changed_lse;
  forward(out, lse);
  const Codes large = Shortened(FT_BF16, {50.0F, -1e6F});
  std::fill(k.begin() + 100 * 64, k.end(), large[0]);
  std::fill(v.begin() + 100 * 64, v.end(), large[1]);
  forward(changed, changed_lse);
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 100 * 64, changed.begin()));
  EXPECT_TRUE(std::equal(lse.begin(), lse.begin() + 100, changed_lse.begin()));
  EXPECT_NE(out[100 * 64], changed[100 * 64]);
}

// A NaN in a key reaches exactly the queries that see the key.
TEST_P(ShortAttentionTest, CarriesNanOfAKeyToEveryLaterQuery) {
  const AttentionShape s = Shape(70, 64);
  const ShortInputs in(s, FT_BF16);
  Tensor key = in.k;
  key[3 * 64] = std::numeric_limits<double>::quiet_NaN();
  const Codes q = CodesOf(FT_BF16, in.q), k = CodesOf(FT_BF16, key), v = CodesOf(FT_BF16, in.v);
  Codes out(q.size());
  Floats lse(70);
  auto g = Sized<FtAttentionForward>(s, kBf16, 64);
  g.q = q.data(), g.k = k.data(), g.v = v.data(), g.out = out.data(), g.lse = lse.data();
  Run(api_.attention_forward, g);
  const Floats found = Longer(FT_BF16, out);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::isnan(found[i]), i >= 3 * 64) << i;
  }
}

// Two ranks share a sequence of four pieces; one has the first and the last. Forward over all pairs
// of queries and keys merges to the whole, and the backward gradients add up to it. The sums of a
// part are rounded but stay within the bounds of the whole.
struct Rank {
  FtRun runs[2];
};
constexpr std::int64_t kPiece = 40;
constexpr Rank kRanks[] = {{{{0, 0, kPiece}, {kPiece, 3 * kPiece, kPiece}}},
                           {{{0, kPiece, kPiece}, {kPiece, 2 * kPiece, kPiece}}}};

class ShortAttentionPartTest : public ShortAttentionTest {
 protected:
  // The rank's rows of x [sequence, width]; Put writes them back.
  static Codes Share(const Codes& x, std::int64_t width, const Rank& rank) {
    Codes share;
    for (const FtRun& run : rank.runs) {
      const auto from = x.begin() + run.position * width;
      share.insert(share.end(), from, from + run.rows * width);
    }
    return share;
  }
  template <class To, class From>
  static void AddShare(const From& share, std::int64_t width, const Rank& rank, To& x) {
    for (const FtRun& run : rank.runs) {
      for (std::int64_t i = 0; i < run.rows * width; ++i) {
        x[static_cast<std::size_t>(run.position * width + i)] +=
            share[static_cast<std::size_t>(run.row * width + i)];
      }
    }
  }
  template <class Arguments>
  Arguments Part(const AttentionShape& s, const Rank& queries, const Rank& keys) {
    Arguments g{};
    g.query_runs = queries.runs, g.key_runs = keys.runs;
    g.query_run_count = g.key_run_count = 2;
    g.batch = 1, g.sample_rows = 2 * kPiece, g.window = s.window;
    g.q_stride = s.heads * s.head_dim, g.kv_stride = s.kv_heads * s.head_dim;
    g.heads = static_cast<std::int32_t>(s.heads);
    g.kv_heads = static_cast<std::int32_t>(s.kv_heads);
    g.head_dim = static_cast<std::int32_t>(s.head_dim);
    g.dtype = FT_BF16;
    return g;
  }
  void CheckParts(const AttentionShape& s);
};

void ShortAttentionPartTest::CheckParts(const AttentionShape& s) {
  const std::int64_t width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  const ShortInputs in(s, FT_BF16);
  const Codes q = CodesOf(FT_BF16, in.q), k = CodesOf(FT_BF16, in.k), v = CodesOf(FT_BF16, in.v),
              dout = CodesOf(FT_BF16, in.dout);
  const auto forward = reference::AttentionForward(s, in.q, in.k, in.v);
  const Codes out = CodesOf(FT_BF16, forward.out);
  const Floats lse(forward.lse.begin(), forward.lse.end());
  const auto grads = reference::AttentionBackward(
      s, in.q, in.k, in.v, ToDouble(Longer(FT_BF16, out)), ToDouble(lse), in.dout);
  AttentionBounds bounds = BoundAttention(s, in.q, in.k, in.v, in.dout, kBf16.rounding);
  Floats merged(q.size()), merged_lse(lse.size()), dq(q.size()), dk(k.size()), dv(v.size());
  for (const Rank& mine : kRanks) {
    const Codes own_q = Share(q, width, mine), own_out = Share(out, width, mine),
                own_dout = Share(dout, width, mine);
    Floats own_lse(static_cast<std::size_t>(2 * kPiece * s.heads));
    for (const FtRun& run : mine.runs) {
      std::copy_n(lse.begin() + run.position * s.heads, run.rows * s.heads,
                  own_lse.begin() + run.row * s.heads);
    }
    Codes part_out(own_q.size()), part_dq(own_q.size());
    Floats part_lse(own_lse.size());
    bool later = false;
    for (const Rank& other : kRanks) {
      const Codes own_k = Share(k, kv_width, other), own_v = Share(v, kv_width, other);
      auto f = Part<FtAttentionPartForward>(s, mine, other);
      f.q = own_q.data(), f.k = own_k.data(), f.v = own_v.data();
      f.out = part_out.data(), f.lse = part_lse.data(), f.merge = later ? 1 : 0;
      Run(api_.attention_part_forward, f);
      Codes part_dk(own_k.size()), part_dv(own_v.size());
      auto g = Part<FtAttentionPartBackward>(s, mine, other);
      g.q = own_q.data(), g.k = own_k.data(), g.v = own_v.data();
      g.out = own_out.data(), g.lse = own_lse.data(), g.dout = own_dout.data();
      g.dq = part_dq.data(), g.dk = part_dk.data(), g.dv = part_dv.data();
      g.dkv_stride = kv_width, g.accumulate_dq = later ? 1 : 0;
      Run(api_.attention_part_backward, g);
      AddShare(Longer(FT_BF16, part_dk), kv_width, other, dk);
      AddShare(Longer(FT_BF16, part_dv), kv_width, other, dv);
      later = true;
    }
    AddShare(Longer(FT_BF16, part_out), width, mine, merged);
    AddShare(part_lse, s.heads, mine, merged_lse);
    AddShare(Longer(FT_BF16, part_dq), width, mine, dq);
  }
  // The output of a first part is rounded before merging: a mean of values, which are at most 1.
  for (double& bound : bounds.out) bound += kBf16.rounding.unit;
  for (Tensor* grad : {&bounds.q, &bounds.k, &bounds.v}) {
    for (double& bound : *grad) bound *= 3.0;
  }
  for (double& bound : bounds.lse) bound += 16.0 * kUnit * 8.0;  // conversion to base 2 and back
  ExpectClose(merged, forward.out, Stored(bounds.out, forward.out, kBf16.rounding), "out");
  ExpectClose(merged_lse, forward.lse, bounds.lse, "lse");
  ExpectClose(dq, grads.q, Stored(bounds.q, grads.q, kBf16.rounding), "dq");
  ExpectClose(dk, grads.k, Stored(bounds.k, grads.k, kBf16.rounding), "dk");
  ExpectClose(dv, grads.v, Stored(bounds.v, grads.v, kBf16.rounding), "dv");
}

TEST_P(ShortAttentionPartTest, PartsMergeIntoTheWhole) {
  for (const std::int64_t window : {0, 50}) {
    AttentionShape s = Shape(4 * kPiece, 64);
    s.heads = 2, s.window = window;
    CheckParts(s);
  }
}

// Queries that see no key get output 0 and lse -inf; when merging, the earlier result stays.
TEST_P(ShortAttentionPartTest, KeepsOutputsOfQueriesThatSeeNoKey) {
  const AttentionShape s = Shape(2 * kPiece, 64);
  const ShortInputs in(s, FT_BF16);
  const Codes q = CodesOf(FT_BF16, in.q), k = CodesOf(FT_BF16, in.k), v = CodesOf(FT_BF16, in.v);
  const Rank early{{{0, 0, kPiece}, {kPiece, kPiece, kPiece}}};
  const Rank late{{{0, 5000, kPiece}, {kPiece, 6000, kPiece}}};
  Codes out(q.size(), 0x7fff);
  Floats lse(2 * kPiece, 7.0F);
  auto g = Part<FtAttentionPartForward>(s, early, late);
  g.q = q.data(), g.k = k.data(), g.v = v.data(), g.out = out.data(), g.lse = lse.data();
  Run(api_.attention_part_forward, g);
  EXPECT_EQ(out, Codes(q.size(), 0));
  EXPECT_EQ(lse, Floats(2 * kPiece, -std::numeric_limits<float>::infinity()));
  const Codes before = q;
  out = before;
  lse.assign(2 * kPiece, 2.5F);
  g.merge = 1;
  Run(api_.attention_part_forward, g);
  EXPECT_EQ(out, before);
  ExpectClose(lse, Tensor(2 * kPiece, 2.5), {8.0 * kUnit}, "lse");
  // Nor have such queries and keys gradients.
  const Codes dout = CodesOf(FT_BF16, in.dout), zeros(k.size(), 0);
  Codes dq(q.size(), 0x7fff), dk(k.size(), 0x7fff), dv(v.size(), 0x7fff);
  auto b = Part<FtAttentionPartBackward>(s, early, late);
  b.q = q.data(), b.k = k.data(), b.v = v.data(), b.out = out.data(), b.lse = lse.data();
  b.dout = dout.data(), b.dq = dq.data(), b.dk = dk.data(), b.dv = dv.data();
  b.dkv_stride = s.kv_heads * s.head_dim;
  Run(api_.attention_part_backward, b);
  EXPECT_EQ(dq, Codes(q.size(), 0));
  EXPECT_EQ(dk, zeros);
  EXPECT_EQ(dv, zeros);
}

FT_TEST_ALL_VARIANTS(ShortAttentionTest);
FT_TEST_ALL_VARIANTS(ShortAttentionPartTest);

}  // namespace
}  // namespace foretrain::test

// Attention of sequences split among ranks: runs of queries against runs of keys, and merging of
// parts.
#include "tests/kernels/reference/attention_part.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/cpu/scratch.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using reference::AttentionPartShape;
using Runs = std::vector<FtRun>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::int64_t RowsOf(const Runs& runs) {
  std::int64_t rows = 0;
  for (const FtRun& run : runs) rows = std::max(rows, run.row + run.rows);
  return rows;
}

// Consecutive runs from row 0 on, with `rows` rows at each of `positions`.
Runs RunsAt(std::int64_t rows, const std::vector<std::int64_t>& positions) {
  Runs runs;
  for (const std::int64_t position : positions) {
    runs.push_back({static_cast<std::int64_t>(runs.size()) * rows, position, rows});
  }
  return runs;
}

std::vector<std::int64_t> PositionsOf(const Runs& runs) {
  std::vector<std::int64_t> positions;
  for (const FtRun& run : runs) {
    for (std::int64_t i = 0; i < run.rows; ++i) positions.push_back(run.position + i);
  }
  return positions;
}

struct Heads {
  std::int64_t batch = 2, heads = 2, kv_heads = 2, head_dim = 16, window = 0;
};

// Queries and keys of one part. Both have the same number of rows per sample, so that both shift
// alike.
struct Part {
  Heads h;
  Runs queries, keys;

  std::int64_t SampleRows() const { return std::max(RowsOf(queries), RowsOf(keys)); }
  AttentionPartShape Shape() const {
    return {h.batch,           h.heads, h.kv_heads, h.head_dim, PositionsOf(queries),
            PositionsOf(keys), h.window};
  }
};

// Rows [batch, sample_rows, width] with `dense` in the rows of the runs and NaN elsewhere. NaN in a
// result shows that a kernel read other rows.
Floats Spread(const Part& part, const Runs& runs, std::int64_t width, const Floats& dense) {
  const std::int64_t rows = RowsOf(runs), stride = part.SampleRows();
  Floats spread(static_cast<std::size_t>(part.h.batch * stride * width), kNan);
  for (std::int64_t i = 0; i < part.h.batch * rows * width; ++i) {
    const std::int64_t row = i / width;
    const std::int64_t to = (row / rows * stride + row % rows) * width + i % width;
    spread[static_cast<std::size_t>(to)] = dense[static_cast<std::size_t>(i)];
  }
  return spread;
}
Floats Collect(const Part& part, const Runs& runs, std::int64_t width, const Floats& spread) {
  const std::int64_t rows = RowsOf(runs), stride = part.SampleRows();
  Floats dense;
  for (std::int64_t i = 0; i < part.h.batch * rows * width; ++i) {
    const std::int64_t row = i / width;
    const std::int64_t from = (row / rows * stride + row % rows) * width + i % width;
    dense.push_back(spread[static_cast<std::size_t>(from)]);
  }
  return dense;
}

struct Inputs {
  explicit Inputs(const Part& part, float size = 2.0F)
      : q(Random(part.h.batch * RowsOf(part.queries) * part.h.heads * part.h.head_dim, 1, size)),
        k(Random(part.h.batch * RowsOf(part.keys) * part.h.kv_heads * part.h.head_dim, 2, size)),
        v(Random(part.h.batch * RowsOf(part.keys) * part.h.kv_heads * part.h.head_dim, 3)),
        dout(Random(part.h.batch * RowsOf(part.queries) * part.h.heads * part.h.head_dim, 4)) {}
  Floats q, k, v, dout;
};

// Largest errors as AttentionBounds derives them, but one number for all elements. Inputs are at
// most as large as `score` and the scales of Inputs.
struct Bounds {
  double lse, out, grads;
};
Bounds BoundsOf(const Part& part, int parts) {
  const auto d = static_cast<double>(part.h.head_dim);
  const auto keys = static_cast<std::int64_t>(PositionsOf(part.keys).size());
  const auto queries = static_cast<std::int64_t>(PositionsOf(part.queries).size()) *
                       (part.h.heads / part.h.kv_heads);
  // |q|, |k| <= 2 and |v|, |dout| <= 1, so scores are at most 4 sqrt(d) and lse at most that +
  // log(keys).
  const double score = 4.0 * std::sqrt(d);
  const double lse = score + std::log(static_cast<double>(keys * parts) + 1.0);
  const double e = Roundings(part.h.head_dim + 4) * score + 4.0 * kUnit * (score + lse);
  // Merging a part converts lse to base 2 and back, and rounds the earlier result again.
  const double merged = parts * 6.0 * kUnit * (1.0 + lse);
  const double lse_error = e + Roundings(keys + 8) + 2.0 * kUnit * lse + merged;
  const double relative = e + lse_error + 8.0 * kUnit + merged;
  // The probabilities of a query sum to at most 1. Sums over its keys are then at most 1 for p |v|,
  // and (|dp| + |delta|) / sqrt(d) * 2 = 4 sqrt(d) for ds |k|. Sums over queries are that many
  // times larger.
  const double ds_relative = relative + 6.0 * kUnit + Roundings(part.h.head_dim + 2) + lse_error;
  const auto many = static_cast<double>(queries);
  return {lse_error, relative + Roundings(keys + 8),
          4.0 * std::sqrt(d) * many *
              (2.0 * ds_relative + Roundings(keys + 4) + Roundings(queries + 4))};
}

class AttentionPartTest : public KernelTest {
 protected:
  struct Outputs {
    Floats out, lse;
  };
  // `into`: dense results of earlier parts, with which this part merges.
  Outputs Forward(const Part& part, const Inputs& in, const Outputs* into = nullptr) {
    const Heads& h = part.h;
    const std::int64_t width = h.heads * h.head_dim, kv_width = h.kv_heads * h.head_dim;
    const Floats q = Spread(part, part.queries, width, in.q);
    const Floats k = Spread(part, part.keys, kv_width, in.k);
    const Floats v = Spread(part, part.keys, kv_width, in.v);
    const auto rows = static_cast<std::size_t>(h.batch * part.SampleRows());
    Floats out(rows * static_cast<std::size_t>(width), kNan);
    Floats lse(rows * static_cast<std::size_t>(h.heads), kNan);
    if (into != nullptr) {
      out = Spread(part, part.queries, width, into->out);
      lse = Spread(part, part.queries, h.heads, into->lse);
    }
    Run(api_.attention_part_forward,
        FtAttentionPartForward{.q = q.data(),
                               .k = k.data(),
                               .v = v.data(),
                               .out = out.data(),
                               .lse = lse.data(),
                               .query_runs = part.queries.data(),
                               .key_runs = part.keys.data(),
                               .query_run_count = static_cast<std::int64_t>(part.queries.size()),
                               .key_run_count = static_cast<std::int64_t>(part.keys.size()),
                               .batch = h.batch,
                               .sample_rows = part.SampleRows(),
                               .q_stride = width,
                               .kv_stride = kv_width,
                               .heads = static_cast<std::int32_t>(h.heads),
                               .kv_heads = static_cast<std::int32_t>(h.kv_heads),
                               .head_dim = static_cast<std::int32_t>(h.head_dim),
                               .merge = into != nullptr ? 1 : 0,
                               .dtype = FT_F32,
                               .window = h.window,
                               .scale = 0.0F,
                               .value_dim = 0,
                               .alibi_heads = 0,
                               .first_head = 0,
                               .softcap = 0.0F,
                               .random = {},
                               .document_starts = nullptr,
                               .key_sample_rows = 0,
                               .bias = nullptr,
                               .bias_stride = 0,
                               .bias_zero = 0});
    return {Collect(part, part.queries, width, out), Collect(part, part.queries, h.heads, lse)};
  }

  struct Grads {
    Floats q, k, v;
  };
  Grads Backward(const Part& part, const Inputs& in, const Outputs& whole,
                 const Floats* dq_before = nullptr) {
    const Heads& h = part.h;
    const std::int64_t width = h.heads * h.head_dim, kv_width = h.kv_heads * h.head_dim;
    const Floats q = Spread(part, part.queries, width, in.q);
    const Floats k = Spread(part, part.keys, kv_width, in.k);
    const Floats v = Spread(part, part.keys, kv_width, in.v);
    const Floats out = Spread(part, part.queries, width, whole.out);
    const Floats lse = Spread(part, part.queries, h.heads, whole.lse);
    const Floats dout = Spread(part, part.queries, width, in.dout);
    Floats dq(q.size(), kNan), dk(k.size() * 2, kNan);
    if (dq_before != nullptr) dq = Spread(part, part.queries, width, *dq_before);
    // dk and dv are halves of common rows, as when ranks send them together.
    Run(api_.attention_part_backward,
        FtAttentionPartBackward{.q = q.data(),
                                .k = k.data(),
                                .v = v.data(),
                                .out = out.data(),
                                .lse = lse.data(),
                                .dout = dout.data(),
                                .dq = dq.data(),
                                .dk = dk.data(),
                                .dv = dk.data() + kv_width,
                                .query_runs = part.queries.data(),
                                .key_runs = part.keys.data(),
                                .query_run_count = static_cast<std::int64_t>(part.queries.size()),
                                .key_run_count = static_cast<std::int64_t>(part.keys.size()),
                                .batch = h.batch,
                                .sample_rows = part.SampleRows(),
                                .q_stride = width,
                                .kv_stride = kv_width,
                                .dkv_stride = 2 * kv_width,
                                .heads = static_cast<std::int32_t>(h.heads),
                                .kv_heads = static_cast<std::int32_t>(h.kv_heads),
                                .head_dim = static_cast<std::int32_t>(h.head_dim),
                                .accumulate_dq = dq_before != nullptr ? 1 : 0,
                                .dtype = FT_F32,
                                .window = h.window,
                                .scale = 0.0F,
                                .value_dim = 0,
                                .alibi_heads = 0,
                                .first_head = 0,
                                .softcap = 0.0F,
                                .random = {},
                                .document_starts = nullptr,
                                .key_sample_rows = 0,
                                .bias = nullptr,
                                .bias_grad = nullptr,
                                .bias_stride = 0,
                                .bias_zero = 0});
    const Floats both = Collect(part, part.keys, 2 * kv_width, dk);
    Grads grads{Collect(part, part.queries, width, dq), {}, {}};
    for (std::size_t i = 0; i < both.size(); ++i) {
      const bool value = static_cast<std::int64_t>(i) % (2 * kv_width) >= kv_width;
      (value ? grads.v : grads.k).push_back(both[i]);
    }
    return grads;
  }

  // Checks the part alone, as if its keys were all that the queries see.
  void Check(const Part& part) {
    SCOPED_TRACE("queries " + testing::PrintToString(PositionsOf(part.queries).size()) +
                 " head_dim " + std::to_string(part.h.head_dim));
    const Inputs in(part);
    const AttentionPartShape shape = part.Shape();
    const Tensor q = ToDouble(in.q), k = ToDouble(in.k), v = ToDouble(in.v);
    const auto expected = reference::AttentionPartForward(shape, q, k, v);
    const Bounds bounds = BoundsOf(part, 1);
    const Outputs actual = Forward(part, in);
    ExpectClose(actual.out, expected.out, {bounds.out}, "out");
    for (std::size_t i = 0; i < expected.lse.size(); ++i) {
      if (std::isinf(expected.lse[i])) {
        ASSERT_EQ(actual.lse[i], -std::numeric_limits<float>::infinity()) << i;
      } else {
        ASSERT_NEAR(actual.lse[i], expected.lse[i], bounds.lse) << i;
      }
    }
    const Outputs whole{Floats(expected.out.begin(), expected.out.end()),
                        Floats(expected.lse.begin(), expected.lse.end())};
    const auto grads = reference::AttentionPartBackward(shape, q, k, v, ToDouble(whole.out),
                                                        ToDouble(whole.lse), ToDouble(in.dout));
    const Grads found = Backward(part, in, whole);
    ExpectClose(found.q, grads.q, {bounds.grads}, "dq");
    ExpectClose(found.k, grads.k, {bounds.grads}, "dk");
    ExpectClose(found.v, grads.v, {bounds.grads}, "dv");
  }
};

// Queries of the second and the seventh of eight pieces, as rank 2 of 4 has them. Keys are its own,
// an earlier rank's, a later one's, and everyone's.
TEST_P(AttentionPartTest, EqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t n : kRaggedSizes) {
    const Runs own = RunsAt(n, {n, 6 * n});
    for (const std::int64_t head_dim : {1, 33}) {
      const Heads h{.head_dim = head_dim};
      Check({h, own, own});
      Check({h, own, RunsAt(n, {0, 7 * n})});
      Check({h, own, RunsAt(n, {3 * n, 4 * n})});
      Check({h, own, RunsAt(n, {0, 7 * n, n, 6 * n, 2 * n, 5 * n, 3 * n, 4 * n})});
    }
  }
}

TEST_P(AttentionPartTest, EqualsTheReferenceAcrossBlocks) {
  for (const std::int64_t n : {kForwardKeys + 1, kBackwardKeys + 1, kForwardQueries + 70}) {
    const Heads h{.batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 24};
    Check({h, RunsAt(n, {0, 3 * n}), RunsAt(n, {0, 3 * n, n, 2 * n})});
    Check({h, RunsAt(n, {n, 2 * n}), RunsAt(n, {0, 3 * n})});
    Check({h, RunsAt(n, {100}), RunsAt(n, {37})});  // the diagonal crosses the blocks
    Check({h, RunsAt(n, {37}), RunsAt(n, {100})});  // and with first queries that see no key
  }
}

TEST_P(AttentionPartTest, SeesTheKeysOfItsWindowAlone) {
  for (const std::int64_t n : kRaggedSizes) {
    for (const std::int64_t window : {std::int64_t{1}, std::int64_t{5}, n, 2 * n + 1}) {
      const Heads h{.head_dim = 33, .window = window};
      const Runs own = RunsAt(n, {n, 6 * n});
      Check({h, own, own});
      Check({h, own, RunsAt(n, {0, 7 * n})});
      Check({h, own, RunsAt(n, {0, 7 * n, n, 6 * n, 2 * n, 5 * n, 3 * n, 4 * n})});
    }
  }
}

TEST_P(AttentionPartTest, SeesTheKeysOfItsWindowAcrossBlocks) {
  const std::int64_t n = kForwardQueries + 70;
  for (const std::int64_t window : {3, 97, 150, 300}) {
    const Heads h{.batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 24, .window = window};
    Check({h, RunsAt(n, {0, 3 * n}), RunsAt(n, {0, 3 * n, n, 2 * n})});
    Check({h, RunsAt(n, {n, 2 * n}), RunsAt(n, {0, 3 * n})});
    Check({h, RunsAt(n, {100}), RunsAt(n, {37})});  // the window's edge crosses the blocks
  }
}

TEST_P(AttentionPartTest, SharesKeyHeadsAmongGroupsOfQueryHeads) {
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    Check({{.heads = 6, .kv_heads = kv_heads}, RunsAt(9, {9, 18}), RunsAt(9, {0, 27, 9, 18})});
  }
}

TEST_P(AttentionPartTest, KeepsOutputsOfQueriesThatSeeNoKey) {
  const Part part{{}, RunsAt(5, {0}), RunsAt(5, {50})};
  const Inputs in(part);
  const Outputs before{Floats(in.q), Floats(Random(2 * 5 * 2, 9))};
  const Outputs nothing = Forward(part, in);
  for (const float x : nothing.out) EXPECT_EQ(x, 0.0F);
  for (const float x : nothing.lse) EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
  const Outputs after = Forward(part, in, &nothing);
  EXPECT_EQ(Bits(after.out), Bits(nothing.out));
  EXPECT_EQ(Bits(after.lse), Bits(nothing.lse));
  // A result merged with nothing stays the same, except that lse goes to base 2 and back.
  const Outputs kept = Forward(part, in, &before);
  EXPECT_EQ(Bits(kept.out), Bits(before.out));
  ExpectClose(kept.lse, ToDouble(before.lse), {4.0 * kUnit}, "lse");
}

// The merged parts of all ranks equal attention over the whole sequence.
TEST_P(AttentionPartTest, PartsMergeIntoTheWhole) {
  for (const auto& lengths : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 0}, {5, 0}, {33, 0}, {70, 0}, {1, 2}, {5, 7}, {33, 20}, {70, 100}}) {
    const std::int64_t n = lengths.first, window = lengths.second;
    SCOPED_TRACE(testing::Message() << n << " window " << window);
    const int cp = 3;
    const Heads h{.heads = 4, .kv_heads = 2, .window = window};
    const Runs own = RunsAt(n, {n, 4 * n});  // rank 1's rows
    const std::vector<Runs> keys = {own, RunsAt(n, {0, 5 * n}), RunsAt(n, {2 * n, 3 * n})};
    const Part all{h, own, RunsAt(n, {n, 4 * n, 0, 5 * n, 2 * n, 3 * n})};
    const Inputs in(all);
    const Bounds bounds = BoundsOf(all, cp);
    const auto expected = reference::AttentionPartForward(all.Shape(), ToDouble(in.q),
                                                          ToDouble(in.k), ToDouble(in.v));
    const Outputs whole{Floats(expected.out.begin(), expected.out.end()),
                        Floats(expected.lse.begin(), expected.lse.end())};
    const auto expected_grads = reference::AttentionPartBackward(
        all.Shape(), ToDouble(in.q), ToDouble(in.k), ToDouble(in.v), ToDouble(whole.out),
        ToDouble(whole.lse), ToDouble(in.dout));
    // Rows of one rank's keys in each sample.
    const auto share = [&](const Floats& x, std::int64_t rank) {
      const std::int64_t width = h.kv_heads * h.head_dim, rows = 2 * n;
      Floats part;
      for (std::int64_t i = 0; i < h.batch * rows * width; ++i) {
        const std::int64_t row = i / width;
        const std::int64_t from = (row / rows * cp + rank) * rows + row % rows;
        part.push_back(x[static_cast<std::size_t>(from * width + i % width)]);
      }
      return part;
    };
    Outputs merged;
    Floats dq;
    for (std::int64_t rank = 0; rank < cp; ++rank) {
      const Part part{h, own, keys[static_cast<std::size_t>(rank)]};
      Inputs of_part = in;
      of_part.k = share(in.k, rank);
      of_part.v = share(in.v, rank);
      merged = Forward(part, of_part, rank > 0 ? &merged : nullptr);
      const Grads grads = Backward(part, of_part, whole, rank > 0 ? &dq : nullptr);
      dq = grads.q;
      ExpectClose(grads.k,
                  ToDouble(share(Floats(expected_grads.k.begin(), expected_grads.k.end()), rank)),
                  {bounds.grads}, "dk");
      ExpectClose(grads.v,
                  ToDouble(share(Floats(expected_grads.v.begin(), expected_grads.v.end()), rank)),
                  {bounds.grads}, "dv");
    }
    ExpectClose(merged.out, expected.out, {bounds.out}, "out");
    ExpectClose(merged.lse, expected.lse, {bounds.lse}, "lse");
    ExpectClose(dq, expected_grads.q, {bounds.grads}, "dq");
  }
}

TEST_P(AttentionPartTest, RefusesRunsThatAreNoRows) {
  FtRun run{-1, 0, 4};
  float x[16] = {};
  FtAttentionPartForward g{};
  g.q = g.k = g.v = g.out = x;
  g.lse = x;
  g.query_runs = g.key_runs = &run;
  g.query_run_count = g.key_run_count = 1;
  g.batch = g.heads = g.kv_heads = g.head_dim = 1;
  g.sample_rows = 4;
  g.q_stride = g.kv_stride = 1;
  EXPECT_EQ(api_.attention_part_forward(queue_.get(), &g), FT_FAILED);
  EXPECT_EQ(api_.queue_error(queue_.get()),
            std::string(api_.name) +
                " attention_part_forward: row of a run is -1: a size cannot be negative");
}

FT_TEST_ALL_VARIANTS(AttentionPartTest);

}  // namespace
}  // namespace foretrain::test

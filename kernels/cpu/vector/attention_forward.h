// Causal attention in blocks of queries and keys, so that no matrix of scores is stored (Dao et al.
// 2022).
//
// Scores are in base 2: queries (forward) or keys (backward) are multiplied by log2(e) /
// sqrt(head_dim) when they are copied, and e^x becomes 2^x. The forward stores scores transposed,
// one key per row, so that each lane computes the softmax of its own query.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/random_mask.h"
#include "kernels/cpu/vector/attention_blocks.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/cpu/vector/tile.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Initial maximum: below any score but finite, so that rescaling never computes -inf minus -inf.
constexpr float kNoScore = -1e38F;

struct ForwardBlock {
  float* queries;  // [head_dim][kForwardQueries], scaled
  float* scores;   // [kForwardKeys][kForwardQueries], later probabilities
  float* values;   // [kForwardKeys][width]
  float* out;      // [kForwardQueries][width], not yet divided by `sum`
  float* most;     // [kForwardQueries]: running maximum of the scores
  float* sum;      // [kForwardQueries]: running sum of 2^(score - most)
  float* rescale;  // [kForwardQueries]: 2^(old most - new most)
  int64_t width;   // value_dim, rounded up to whole vectors
};

// scores = keys * queries, for the vectors of queries that contain one that sees the key.
FT_INLINE void ForwardScores(const FtAttentionForward& g, const ForwardBlock& block,
                             const View& view, const float* keys) {
  for (int64_t j = 0; j < view.keys; j += kStripRows) {
    const int64_t rows = Least(kStripRows, view.keys - j);
    // Queries before j - ahead do not see key j yet; those past QueriesOf have it outside their
    // window.
    const int64_t skip = Greatest(0, j - view.ahead) / kLanes;
    const int64_t vectors = (view.QueriesOf(j + rows - 1) + kLanes - 1) / kLanes - skip;
    if (vectors <= 0) {
      continue;
    }
    StripProduct<Along::kRow>({.depth = g.head_dim,
                               .a = keys + j * g.row_stride,
                               .a_stride = g.row_stride,
                               .b = block.queries + skip * kLanes,
                               .b_stride = kForwardQueries,
                               .c = block.scores + j * kForwardQueries + skip * kLanes,
                               .c_stride = kForwardQueries,
                               .scale = nullptr},
                              rows, vectors);
  }
}

// Applies cap and biases to all pairs of the block; keys that a query does not see are hidden
// later.
FT_INLINE void ForwardBend(const ForwardBlock& block, const View& view, const Bend& bend) {
  if (bend.IsStraight()) {
    return;
  }
  for (int64_t j = 0; j < view.keys; ++j) {
    for (int64_t c = 0; c < view.queries; c += kLanes) {
      float* at = block.scores + j * kForwardQueries + c;
      Vector share = {};
      Vector score = bend.Of(Load(at), Progression(c + view.ahead - j, 1.0F), share);
      if (bend.bias != nullptr) {
        score += BiasOfQueries(bend.bias + (j - c - view.ahead), view.queries - c);
      }
      Store(at, score);
    }
  }
}

// Sets lanes below `first` and from `last` on to -inf: their queries do not see the key.
FT_INLINE Vector HideScores(Vector scores, int64_t first, int64_t last) {
  const Vector nothing = Set(-__builtin_inff());
  const Vector seen = LaneNumbers() < static_cast<int32_t>(first) ? nothing : scores;
  return LaneNumbers() < static_cast<int32_t>(Least(last, kLanes)) ? seen : nothing;
}

// Maximum of `before` and of the scores of kLanes queries from `query` on. Scores of keys that a
// lane does not see become -inf. At least one lane sees keys [begin, end); all lanes see those in
// the middle, which need no mask.
FT_INLINE Vector ForwardMost(const View& view, int64_t query, int64_t begin, int64_t end,
                             Vector before, float* column) {
  const int64_t full = view.KeysOf(query);
  const int64_t all_from = Least(view.FirstOf(query + kLanes - 1), end);
  Vector most[4] = {before, before, before, before};
  const auto hide = [&](int64_t j) __attribute__((always_inline)) {
    float* at = column + j * kForwardQueries;
    const int64_t first = j - view.ahead - query;
    const Vector scores = HideScores(Load(at), first, first + view.window);
    Store(at, scores);
    most[0] = Max(most[0], scores);
  };
  int64_t j = begin;
  for (; j < all_from; ++j) {
    hide(j);
  }
  for (; j + 4 <= full; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      most[i] = Max(most[i], Load(column + (j + i) * kForwardQueries));
    }
  }
  for (; j < end; ++j) {
    hide(j);
  }
  return Max(Max(most[0], most[1]), Max(most[2], most[3]));
}

// Scores of keys [begin, end) become 2^(score - most), all others 0. Returns the sum.
FT_INLINE Vector ForwardProbabilities(Vector most, int64_t begin, int64_t end, int64_t keys,
                                      float* column) {
  Sum sum;
  int64_t j = 0;
  for (; j < begin; ++j) {
    Store(column + j * kForwardQueries, Vector{});
  }
  for (; j + 4 <= end; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* at = column + (j + i) * kForwardQueries;
      const Vector p = Exp2(Load(at) - most);
      Store(at, p);
      sum.part[i] += p;
    }
  }
  for (; j < end; ++j) {
    float* at = column + j * kForwardQueries;
    const Vector p = Exp2(Load(at) - most);
    Store(at, p);
    sum.part[0] += p;
  }
  for (; j < keys; ++j) {
    Store(column + j * kForwardQueries, Vector{});
  }
  return sum.total();
}

// Online softmax of kLanes queries from `query` on: scores become 2^(score - most), and the running
// maximum and sum are updated. `rescale` corrects the output that earlier key blocks accumulated.
FT_INLINE void ForwardSoftmax(const ForwardBlock& block, const View& view, int64_t query) {
  float* column = block.scores + query;
  const int64_t begin = view.FirstOf(query);
  const int64_t end = view.KeysOf(query + kLanes - 1);
  const Vector before = Load(block.most + query);
  const Vector now = ForwardMost(view, query, begin, end, before, column);
  const Vector rescale = Exp2(before - now);
  const Vector sum = ForwardProbabilities(now, begin, end, view.keys, column);
  Store(block.most + query, now);
  Store(block.rescale + query, rescale);
  Store(block.sum + query, Load(block.sum + query) * rescale + sum);
}

// Position of a block for dropout: sample, head, and the positions of its first query and key.
struct Drawn {
  int64_t sample, head, query, key;
};

// Applies dropout to the probabilities. The sum stays that of all probabilities, because dropout
// follows the softmax.
FT_INLINE void ForwardDrop(const FtRandomMask& random, const ForwardBlock& block, const View& view,
                           const Drawn& at) {
  if (random.probability == 0.0F) {
    return;
  }
  float factors[kForwardKeys];
  for (int64_t i = 0; i < view.queries; ++i) {
    KeepFactors(random, at.sample, at.head, at.query + i, at.key, view.keys, factors);
    for (int64_t j = 0; j < view.keys; ++j) {
      block.scores[j * kForwardQueries + i] *= factors[j];
    }
  }
}

// out = out * rescale + probabilities * values.
FT_INLINE void ForwardValues(const ForwardBlock& block, const View& view) {
  for (int64_t i = 0; i < view.queries; i += kStripRows) {
    const int64_t rows = Least(kStripRows, view.queries - i);
    const int64_t first = view.FirstOf(i);
    const int64_t depth = view.KeysOf(i + rows - 1) - first;
    if (depth <= 0) {
      continue;  // these queries see no key here, so their maxima are unchanged
    }
    StripProduct<Along::kColumn>({.depth = depth,
                                  .a = block.scores + first * kForwardQueries + i,
                                  .a_stride = kForwardQueries,
                                  .b = block.values + first * block.width,
                                  .b_stride = block.width,
                                  .c = block.out + i * block.width,
                                  .c_stride = block.width,
                                  .scale = block.rescale + i},
                                 rows, block.width / kLanes);
  }
}

// Writes out[rows, heads * value_dim] and lse of a block of queries whose first row is `row`.
FT_INLINE void ForwardFinish(const FtAttentionForward& g, const ForwardBlock& block, int64_t row,
                             int64_t head, int64_t queries) {
  const int64_t value_dim = ValueDim(g);
  const int64_t out_stride = int64_t{g.heads} * value_dim;
  for (int64_t i = 0; i < queries; ++i) {
    const float inverse = 1.0F / block.sum[i];
    float* to = Floats(g.out) + (row + i) * out_stride + head * value_dim;
    const float* from = block.out + i * block.width;
    ForEachVector(
        value_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(to + c, Load(from + c) * inverse);
        });
    g.lse[(row + i) * g.heads + head] = (block.most[i] + __builtin_log2f(block.sum[i])) * kLn2;
  }
}

// Cuts the scratch into the buffers of one block; kAttentionScratch counts the same ones.
FT_INLINE ForwardBlock TakeForwardBlock(int64_t head_dim, int64_t value_dim, float* scratch) {
  ScratchParts parts(scratch);
  ForwardBlock block{};
  block.width = RoundUp(value_dim, kLanes);
  block.queries = parts.Take(kForwardQueries * RoundUp(head_dim, kLanes));
  block.scores = parts.Take(kForwardKeys * kForwardQueries);
  block.values = parts.Take(kForwardKeys * block.width);
  block.out = parts.Take(kForwardQueries * block.width);
  block.most = parts.Take(kForwardQueries);
  block.sum = parts.Take(kForwardQueries);
  block.rescale = parts.Take(kForwardQueries);
  return block;
}

// Processes one block of queries from i on, for one head; i counts from the document's first row.
// Key blocks start at the first key inside the window and end at the diagonal.
FT_INLINE void ForwardOfQueries(const FtAttentionForward& g, const ForwardBlock& block,
                                const Document& document, int64_t head, int64_t i) {
  const int64_t start = document.row;
  const float scale = kLog2E * ScoreScale(g.scale, g.head_dim);
  const int64_t kv_head = head / (g.heads / g.kv_heads);
  const float* q = Floats(g.q) + (start + i) * g.row_stride + head * g.head_dim;
  const float* k = Floats(g.k) + start * g.row_stride + kv_head * g.head_dim;
  const int64_t value_dim = ValueDim(g);
  const float* v = Floats(g.v) + start * g.row_stride + kv_head * value_dim;
  const Bend bend = BendOf(g, head);
  const int64_t queries = Least(kForwardQueries, document.length - i);
  CopyTransposed(q, g.row_stride, queries, g.head_dim, scale, block.queries, kForwardQueries);
  for (int64_t c = 0; c < kForwardQueries; c += kLanes) {
    Store(block.most + c, Set(kNoScore));
    Store(block.sum + c, Vector{});
  }
  memset(block.out, 0, static_cast<size_t>(queries * block.width) * sizeof(float));
  const int64_t window = WindowOf(g.window);
  for (int64_t j = Greatest(0, i + 1 - window); j < i + queries; j += kForwardKeys) {
    const View view{.queries = queries,
                    .keys = Least(kForwardKeys, i + queries - j),
                    .ahead = i - j,
                    .window = window};
    ForwardScores(g, block, view, k + j * g.row_stride);
    ForwardBend(block, view, bend);
    for (int64_t c = 0; c < queries; c += kLanes) {
      ForwardSoftmax(block, view, c);
    }
    ForwardDrop(g.random, block, view,
                {document.sample, head, document.first + i, document.first + j});
    CopyRows(v + j * g.row_stride, g.row_stride, view.keys, value_dim, block.values, block.width);
    ForwardValues(block, view);
  }
  ForwardFinish(g, block, start + i, head, queries);
}

// Loops: samples and heads, documents, then blocks of queries. Each block reads all its keys once
// and writes its rows of out and lse once. A document is computed as a sample of its own would be,
// to the bit. Cost: about 2 head_dim + 2 value_dim FLOP a visible pair.
inline void AttentionForward(const FtAttentionForward& g, float* scratch) {
  const ForwardBlock block = TakeForwardBlock(g.head_dim, ValueDim(g), scratch);
  for (int64_t item = 0; item < g.batch * g.heads; ++item) {
    for (int64_t first = 0; first < g.sequence;) {
      const Document document = DocumentAt(g, item / g.heads, first);
      for (int64_t i = 0; i < document.length; i += kForwardQueries) {
        ForwardOfQueries(g, block, document, item % g.heads, i);
      }
      first += document.length;
    }
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

// Causal attention in blocks of queries and keys, so that no matrix of scores is stored (Dao et al.
// 2022).
//
// Scores are kept in base 2: queries (forward) or keys (backward) are multiplied by log2(e) /
// sqrt(head_dim) when they are copied, and e^x becomes 2^x. Forward holds the transpose of the
// scores, a key a row, so that the softmax of kLanes queries is taken lane by lane.
//
// Longer than 400 lines: forward and backward share the view, the copies and the strips.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/cpu/vector/tile.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Hands out parts of the scratch.
class ScratchParts {
 public:
  explicit ScratchParts(float* at) : at_(at) {}
  FT_INLINE float* Take(int64_t floats) {
    float* part = at_;
    at_ += RoundUp(floats, kScratchGap) + kScratchGap;
    return part;
  }

 private:
  float* at_;
};

// to[r][0, width) = from[r * stride + c], 0 for c in [columns, width).
FT_INLINE void CopyRows(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                        int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = from + r * stride;
    float* out = to + r * width;
    ForEachVector(
        columns, [&](int64_t c, auto access)
                     __attribute__((always_inline)) { Store(out + c, access.load(in + c)); });
  }
}

// to[c * width + r] = from[r * stride + c] * scale for r in [0, rows), c in [0, columns); 0 for r
// in [rows, width).
FT_INLINE void CopyTransposed(const float* from, int64_t stride, int64_t rows, int64_t columns,
                              float scale, float* to, int64_t width) {
  for (int64_t r = 0; r < width; r += kLanes) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int64_t wide = Least(kLanes, columns - c);
      Vector square[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        square[i] = r + i < rows ? LoadPart(from + (r + i) * stride + c, wide) * scale : Vector{};
      }
      Transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (i < wide) {
          Store(to + (c + i) * width + r, square[i]);
        }
      }
    }
  }
}

// ---- forward
// ---------------------------------------------------------------------------------------------------------

struct ForwardBlock {
  float* queries;  // [head_dim][kForwardQueries], scaled
  float* scores;   // [kForwardKeys][kForwardQueries], then probabilities
  float* values;   // [kForwardKeys][width]
  float* out;      // [kForwardQueries][width], not yet divided by `sum`
  float* most;     // [kForwardQueries]: largest score so far
  float* sum;      // [kForwardQueries]: of 2^(score - most)
  float* rescale;  // [kForwardQueries]: 2^(most before - most now)
  int64_t width;   // head_dim, rounded up to whole vectors
};

// What a block of queries sees of a block of keys. Query i sees key j where j <= i + ahead.
struct View {
  int64_t queries, keys;
  int64_t ahead;  // first query's position - first key's

  // Keys that query i sees, from the block's first.
  FT_INLINE int64_t KeysOf(int64_t query) const { return Clamp(query + ahead + 1, 0, keys); }
};

// scores = keys * queries, where any query of a vector sees the key.
FT_INLINE void ForwardScores(const FtAttentionForward& g, const ForwardBlock& block,
                             const View& view, const float* keys) {
  for (int64_t j = 0; j < view.keys; j += kStripRows) {
    const int64_t rows = Least(kStripRows, view.keys - j);
    // Queries before j - ahead see none of these keys.
    const int64_t skip = Greatest(0, j - view.ahead) / kLanes;
    const int64_t vectors = (view.queries + kLanes - 1) / kLanes - skip;
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

// -inf where a lane's query does not see the key: lanes below `first`.
FT_INLINE Vector HideScores(Vector scores, int64_t first) {
  return LaneNumbers() < static_cast<int32_t>(first) ? Set(-__builtin_inff()) : scores;
}

// Scores of kLanes queries from `query` on become 2^(score - most); keeps the running maximum and
// sum.
FT_INLINE void ForwardSoftmax(const ForwardBlock& block, const View& view, int64_t query) {
  float* column = block.scores + query;
  // All lanes see keys [0, full), some lanes keys [full, end).
  const int64_t full = view.KeysOf(query);
  const int64_t end = view.KeysOf(query + kLanes - 1);
  const auto first_lane = [&](int64_t key) { return key - view.ahead - query; };
  const Vector before = Load(block.most + query);
  Vector most[4] = {before, before, before, before};
  int64_t j = 0;
  for (; j + 4 <= full; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      most[i] = Max(most[i], Load(column + (j + i) * kForwardQueries));
    }
  }
  for (; j < end; ++j) {
    float* at = column + j * kForwardQueries;
    const Vector scores = HideScores(Load(at), first_lane(j));
    Store(at, scores);
    most[0] = Max(most[0], scores);
  }
  const Vector now = Max(Max(most[0], most[1]), Max(most[2], most[3]));
  const Vector rescale = Exp2(before - now);
  Sum sum;
  for (j = 0; j + 4 <= end; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* at = column + (j + i) * kForwardQueries;
      const Vector p = Exp2(Load(at) - now);
      Store(at, p);
      sum.part[i] += p;
    }
  }
  for (; j < end; ++j) {
    float* at = column + j * kForwardQueries;
    const Vector p = Exp2(Load(at) - now);
    Store(at, p);
    sum.part[0] += p;
  }
  for (; j < view.keys; ++j) {
    Store(column + j * kForwardQueries, Vector{});
  }
  Store(block.most + query, now);
  Store(block.rescale + query, rescale);
  Store(block.sum + query, Load(block.sum + query) * rescale + sum.total());
}

// out = out * rescale + probabilities * values.
FT_INLINE void ForwardValues(const ForwardBlock& block, const View& view) {
  for (int64_t i = 0; i < view.queries; i += kStripRows) {
    const int64_t rows = Least(kStripRows, view.queries - i);
    const int64_t depth = view.KeysOf(i + rows - 1);
    if (depth <= 0) {
      continue;  // these queries see nothing here, so their maxima are as before
    }
    StripProduct<Along::kColumn>({.depth = depth,
                                  .a = block.scores + i,
                                  .a_stride = kForwardQueries,
                                  .b = block.values,
                                  .b_stride = block.width,
                                  .c = block.out + i * block.width,
                                  .c_stride = block.width,
                                  .scale = block.rescale + i},
                                 rows, block.width / kLanes);
  }
}

// out[rows, heads * head_dim] and lse of a block of queries whose first row is `row`.
FT_INLINE void ForwardFinish(const FtAttentionForward& g, const ForwardBlock& block, int64_t row,
                             int64_t head, int64_t queries) {
  const int64_t out_stride = int64_t{g.heads} * g.head_dim;
  for (int64_t i = 0; i < queries; ++i) {
    const float inverse = 1.0F / block.sum[i];
    float* to = Floats(g.out) + (row + i) * out_stride + head * g.head_dim;
    const float* from = block.out + i * block.width;
    ForEachVector(
        g.head_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(to + c, Load(from + c) * inverse);
        });
    g.lse[(row + i) * g.heads + head] = (block.most[i] + __builtin_log2f(block.sum[i])) * kLn2;
  }
}

inline void AttentionForward(const FtAttentionForward& g, float* scratch) {
  ScratchParts parts(scratch);
  ForwardBlock block{};
  block.width = RoundUp(g.head_dim, kLanes);
  block.queries = parts.Take(kForwardQueries * block.width);
  block.scores = parts.Take(kForwardKeys * kForwardQueries);
  block.values = parts.Take(kForwardKeys * block.width);
  block.out = parts.Take(kForwardQueries * block.width);
  block.most = parts.Take(kForwardQueries);
  block.sum = parts.Take(kForwardQueries);
  block.rescale = parts.Take(kForwardQueries);
  const float scale = kLog2E / __builtin_sqrtf(static_cast<float>(g.head_dim));

  for (int64_t item = 0; item < g.batch * g.heads; ++item) {
    const int64_t start = item / g.heads * g.sequence;
    const int64_t head = item % g.heads;
    const int64_t kv_head = head / (g.heads / g.kv_heads);
    const float* q = Floats(g.q) + start * g.row_stride + head * g.head_dim;
    const float* k = Floats(g.k) + start * g.row_stride + kv_head * g.head_dim;
    const float* v = Floats(g.v) + start * g.row_stride + kv_head * g.head_dim;
    for (int64_t i = 0; i < g.sequence; i += kForwardQueries) {
      const int64_t queries = Least(kForwardQueries, g.sequence - i);
      CopyTransposed(q + i * g.row_stride, g.row_stride, queries, g.head_dim, scale, block.queries,
                     kForwardQueries);
      for (int64_t c = 0; c < kForwardQueries; c += kLanes) {
        Store(block.most + c, Set(-__builtin_inff()));
        Store(block.sum + c, Vector{});
      }
      memset(block.out, 0, static_cast<size_t>(queries * block.width) * sizeof(float));
      for (int64_t j = 0; j < i + queries; j += kForwardKeys) {
        const View view{
            .queries = queries, .keys = Least(kForwardKeys, i + queries - j), .ahead = i - j};
        ForwardScores(g, block, view, k + j * g.row_stride);
        for (int64_t c = 0; c < queries; c += kLanes) {
          ForwardSoftmax(block, view, c);
        }
        CopyRows(v + j * g.row_stride, g.row_stride, view.keys, g.head_dim, block.values,
                 block.width);
        ForwardValues(block, view);
      }
      ForwardFinish(g, block, start + i, head, queries);
    }
  }
}

// ---- backward
// --------------------------------------------------------------------------------------------------------

struct BackwardBlock {
  float* key_columns;    // [head_dim][kBackwardKeys], scaled
  float* value_columns;  // [head_dim][kBackwardKeys]
  float* keys;           // [kBackwardKeys][width]
  float* queries;        // [kBackwardQueries][width]
  float* dout;           // [kBackwardQueries][width]
  float* p;              // [kBackwardQueries][kBackwardKeys]: scores, then probabilities
  float* ds;             // [kBackwardQueries][kBackwardKeys]: gradient of p, then of the scores
  float* dq;             // [kStripRows][width], where a slice's rows are no whole vectors
  float* dk;             // [kBackwardKeys][width]
  float* dv;             // [kBackwardKeys][width]
  float* lse;            // [kBackwardQueries], base 2
  float* delta;          // [kBackwardQueries]: sum of dout * out
  float* ones;           // [kStripRows]
  int64_t width;         // head_dim, rounded up to whole vectors
};

// Scores and gradients of probabilities of the strip of queries from i on, up to the last key that
// one of them sees.
FT_INLINE void BackwardScores(const FtAttentionBackward& g, const BackwardBlock& block,
                              const View& view, int64_t i, int64_t rows) {
  const int64_t vectors = RoundUp(view.KeysOf(i + rows - 1), kLanes) / kLanes;
  StripArguments s{.depth = g.head_dim,
                   .a = block.queries + i * block.width,
                   .a_stride = block.width,
                   .b = block.key_columns,
                   .b_stride = kBackwardKeys,
                   .c = block.p + i * kBackwardKeys,
                   .c_stride = kBackwardKeys,
                   .scale = nullptr};
  StripProduct<Along::kRow>(s, rows, vectors);
  s.a = block.dout + i * block.width;
  s.b = block.value_columns;
  s.c = block.ds + i * kBackwardKeys;
  StripProduct<Along::kRow>(s, rows, vectors);
}

// p = 2^(score - lse), ds = p * (dp - delta) / sqrt(head_dim) of one query; both 0 for keys that it
// does not see.
FT_INLINE void BackwardSoftmax(const BackwardBlock& block, const View& view, int64_t i,
                               float scale) {
  float* p = block.p + i * kBackwardKeys;
  float* ds = block.ds + i * kBackwardKeys;
  const Vector lse = Set(block.lse[i]);
  const Vector delta = Set(block.delta[i]);
  const int64_t seen = view.KeysOf(i);
  ForEachVector(
      seen, [&](int64_t j, auto access) __attribute__((always_inline)) {
        const Vector probability = access.keep(Exp2(Load(p + j) - lse));
        Store(p + j, probability);
        Store(ds + j, access.keep(probability * ((Load(ds + j) - delta) * scale)));
      });
  for (int64_t j = RoundUp(seen, kLanes); j < view.keys; j += kLanes) {
    Store(p + j, Vector{});
    Store(ds + j, Vector{});
  }
}

// dv += p^T dout, dk += ds^T queries.
FT_INLINE void BackwardKeysValues(const BackwardBlock& block, const View& view) {
  for (int64_t j = 0; j < view.keys; j += kStripRows) {
    const int64_t rows = Least(kStripRows, view.keys - j);
    const int64_t first =
        Clamp(j - view.ahead, 0, view.queries);  // queries before it see none of these keys
    if (first == view.queries) {
      continue;
    }
    StripArguments s{.depth = view.queries - first,
                     .a = block.p + first * kBackwardKeys + j,
                     .a_stride = kBackwardKeys,
                     .b = block.dout + first * block.width,
                     .b_stride = block.width,
                     .c = block.dv + j * block.width,
                     .c_stride = block.width,
                     .scale = block.ones};
    StripProduct<Along::kColumn>(s, rows, block.width / kLanes);
    s.a = block.ds + first * kBackwardKeys + j;
    s.b = block.queries + first * block.width;
    s.c = block.dk + j * block.width;
    StripProduct<Along::kColumn>(s, rows, block.width / kLanes);
  }
}

// dq (+)= ds keys of a strip of queries; `to` is the first one's row of dq.
FT_INLINE void BackwardQueries(const FtAttentionBackward& g, const BackwardBlock& block,
                               const View& view, int64_t i, int64_t rows, float* to, bool add) {
  const bool whole =
      g.head_dim == block.width;  // else a whole vector would pass the end of the slice
  StripProduct<Along::kRow>({.depth = view.KeysOf(i + rows - 1),
                             .a = block.ds + i * kBackwardKeys,
                             .a_stride = kBackwardKeys,
                             .b = block.keys,
                             .b_stride = block.width,
                             .c = whole ? to : block.dq,
                             .c_stride = whole ? g.row_stride : block.width,
                             .scale = whole && add ? block.ones : nullptr},
                            rows, block.width / kLanes);
  if (whole) {
    return;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = block.dq + row * block.width;
    ForEachVector(
        g.head_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          float* at = to + row * g.row_stride + c;
          access.store(at, add ? access.load(at) + Load(from + c) : Load(from + c));
        });
  }
}

// Copies a block of queries with what belongs to them; `row` is the first query's row.
FT_INLINE void BackwardLoadQueries(const FtAttentionBackward& g, const BackwardBlock& block,
                                   int64_t row, int64_t head, int64_t queries) {
  const int64_t out_stride = int64_t{g.heads} * g.head_dim;
  const float* out = Floats(g.out) + row * out_stride + head * g.head_dim;
  const float* dout = Floats(g.dout) + row * out_stride + head * g.head_dim;
  const float* q = Floats(g.q) + row * g.row_stride + head * g.head_dim;
  CopyRows(q, g.row_stride, queries, g.head_dim, block.queries, block.width);
  CopyRows(dout, out_stride, queries, g.head_dim, block.dout, block.width);
  for (int64_t i = 0; i < queries; ++i) {
    block.lse[i] = g.lse[(row + i) * g.heads + head] * kLog2E;
    block.delta[i] = SumOver(
        g.head_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          return access.load(out + i * out_stride + c) * access.load(dout + i * out_stride + c);
        });
  }
}

FT_INLINE BackwardBlock TakeBackwardBlock(int64_t head_dim, float* scratch) {
  ScratchParts parts(scratch);
  BackwardBlock block{};
  block.width = RoundUp(head_dim, kLanes);
  const int64_t key_rows = kBackwardKeys * block.width;
  const int64_t query_rows = kBackwardQueries * block.width;
  block.key_columns = parts.Take(key_rows);
  block.value_columns = parts.Take(key_rows);
  block.keys = parts.Take(key_rows);
  block.dk = parts.Take(key_rows);
  block.dv = parts.Take(key_rows);
  block.queries = parts.Take(query_rows);
  block.dout = parts.Take(query_rows);
  block.dq = parts.Take(kStripRows * block.width);
  block.p = parts.Take(kBackwardQueries * kBackwardKeys);
  block.ds = parts.Take(kBackwardQueries * kBackwardKeys);
  block.lse = parts.Take(kBackwardQueries);
  block.delta = parts.Take(kBackwardQueries);
  block.ones = parts.Take(kStripRows);
  for (int i = 0; i < kStripRows; ++i) {
    block.ones[i] = 1.0F;
  }
  return block;
}

// Gradients that flow through the keys [j, j + keys) of one key head of one sequence, whose first
// row is `start`.
FT_INLINE void BackwardOfKeys(const FtAttentionBackward& g, const BackwardBlock& block,
                              int64_t start, int64_t kv_head, int64_t j) {
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(g.head_dim));
  const int64_t group = g.heads / g.kv_heads;
  const int64_t keys = Least(kBackwardKeys, g.sequence - j);
  const int64_t at = (start + j) * g.row_stride + kv_head * g.head_dim;
  CopyTransposed(Floats(g.k) + at, g.row_stride, keys, g.head_dim, kLog2E * scale,
                 block.key_columns, kBackwardKeys);
  CopyTransposed(Floats(g.v) + at, g.row_stride, keys, g.head_dim, 1.0F, block.value_columns,
                 kBackwardKeys);
  CopyRows(Floats(g.k) + at, g.row_stride, keys, g.head_dim, block.keys, block.width);
  memset(block.dk, 0, static_cast<size_t>(keys * block.width) * sizeof(float));
  memset(block.dv, 0, static_cast<size_t>(keys * block.width) * sizeof(float));
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t i = j; i < g.sequence; i += kBackwardQueries) {
      const int64_t queries = Least(kBackwardQueries, g.sequence - i);
      const View view{.queries = queries, .keys = keys, .ahead = i - j};
      BackwardLoadQueries(g, block, start + i, head, queries);
      float* dq = Floats(g.dq) + (start + i) * g.row_stride + head * g.head_dim;
      for (int64_t q = 0; q < queries; q += kStripRows) {
        const int64_t rows = Least(kStripRows, queries - q);
        BackwardScores(g, block, view, q, rows);
        for (int64_t row = q; row < q + rows; ++row) {
          BackwardSoftmax(block, view, row, scale);
        }
        BackwardQueries(g, block, view, q, rows, dq + q * g.row_stride, j > 0);
      }
      BackwardKeysValues(block, view);
    }
  }
  for (int64_t i = 0; i < keys; ++i) {
    ForEachVector(
        g.head_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(Floats(g.dk) + at + i * g.row_stride + c,
                       Load(block.dk + i * block.width + c));
          access.store(Floats(g.dv) + at + i * g.row_stride + c,
                       Load(block.dv + i * block.width + c));
        });
  }
}

inline void AttentionBackward(const FtAttentionBackward& g, float* scratch) {
  const BackwardBlock block = TakeBackwardBlock(g.head_dim, scratch);
  for (int64_t item = 0; item < g.batch * g.kv_heads; ++item) {
    for (int64_t j = 0; j < g.sequence; j += kBackwardKeys) {
      BackwardOfKeys(g, block, item / g.kv_heads * g.sequence, item % g.kv_heads, j);
    }
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

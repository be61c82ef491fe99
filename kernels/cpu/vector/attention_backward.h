// Gradients of causal attention, block by block of keys. Probabilities are recomputed from the
// scores and lse (Dao et al. 2022). Scores are in base 2, as in attention_forward.h.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/random_mask.h"
#include "kernels/cpu/vector/attention_blocks.h"
#include "kernels/cpu/vector/attention_forward.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/cpu/vector/tile.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

struct BackwardBlock {
  float* key_columns;    // [head_dim][kBackwardKeys], scaled
  float* value_columns;  // [value_dim][kBackwardKeys]
  float* keys;           // [kBackwardKeys][width]
  float* queries;        // [kBackwardQueries][width]
  float* dout;           // [kBackwardQueries][value_width]
  float* p;              // [kBackwardQueries][kBackwardKeys]: scores, then probabilities
  float* ds;             // [kBackwardQueries][kBackwardKeys]: gradient of p, then of scores
  float* dq;             // [kStripRows][width], used if a slice's rows are not whole vectors
  float* dk;             // [kBackwardKeys][width]
  float* dv;             // [kBackwardKeys][value_width]
  float* lse;            // [kBackwardQueries], base 2
  float* delta;          // [kBackwardQueries]: sum of dout * out
  float* ones;           // [kStripRows]
  int64_t width;         // head_dim, rounded up to whole vectors
  int64_t value_width;   // value_dim, rounded up likewise
};

// Scores and gradients of probabilities for the strip of queries from i on. Covers the keys that
// any query of the strip sees, rounded to whole vectors.
FT_INLINE void BackwardScores(const FtAttentionBackward& g, const BackwardBlock& block,
                              const View& view, int64_t i, int64_t rows) {
  const int64_t skip = view.FirstOf(i) / kLanes * kLanes;
  const int64_t vectors = RoundUp(view.KeysOf(i + rows - 1) - skip, kLanes) / kLanes;
  StripArguments s{.depth = g.head_dim,
                   .a = block.queries + i * block.width,
                   .a_stride = block.width,
                   .b = block.key_columns + skip,
                   .b_stride = kBackwardKeys,
                   .c = block.p + i * kBackwardKeys + skip,
                   .c_stride = kBackwardKeys,
                   .scale = nullptr};
  StripProduct<Along::kRow>(s, rows, vectors);
  s.depth = ValueDim(g);
  s.a = block.dout + i * block.value_width;
  s.a_stride = block.value_width;
  s.b = block.value_columns + skip;
  s.c = block.ds + i * kBackwardKeys + skip;
  StripProduct<Along::kRow>(s, rows, vectors);
}

// p = 2^(score - lse) and ds = p * (dp - delta) * scale for one query. Both are 0 for keys that the
// query does not see. The score cap scales ds by its own derivative. Adds p * (dp - delta) to the
// gradient of the biases, which stand after scale and cap.
FT_INLINE void BackwardSoftmax(const BackwardBlock& block, const View& view, const Bend& bend,
                               int64_t i, float scale) {
  float* p = block.p + i * kBackwardKeys;
  float* ds = block.ds + i * kBackwardKeys;
  const Vector lse = Set(block.lse[i]);
  const Vector delta = Set(block.delta[i]);
  const int64_t first = view.FirstOf(i);
  const int64_t skip = first / kLanes * kLanes;
  const int64_t seen = view.KeysOf(i);
  for (int64_t j = 0; j < skip; j += kLanes) {
    Store(p + j, Vector{});
    Store(ds + j, Vector{});
  }
  ForEachVector(
      seen - skip, [&](int64_t c, auto access) __attribute__((always_inline)) {
        const int64_t j = skip + c;
        Vector score = Load(p + j);
        Vector passed = Set(scale);
        if (!bend.IsStraight()) {
          Vector share = Set(1.0F);
          score = bend.Of(score, Progression(i + view.ahead - j, -1.0F), share);
          passed = passed * share;
        }
        const int64_t distance = j - i - view.ahead;
        if (bend.bias != nullptr) {
          score += access.load(bend.bias + distance) * kLog2E;
        }
        const Vector probability = access.keep(Exp2(score - lse));
        const Vector gradient = Load(ds + j) - delta;
        Store(p + j, probability);
        Store(ds + j, access.keep(probability * (gradient * passed)));
        if (bend.bias_grad != nullptr) {
          float* sum = bend.bias_grad + distance;
          access.store(sum, access.load(sum) + access.keep(probability * gradient));
        }
      });
  for (int64_t j = skip; j < first; ++j) {
    p[j] = 0.0F;
    ds[j] = 0.0F;
  }
  for (int64_t j = RoundUp(seen, kLanes); j < view.keys; j += kLanes) {
    Store(p + j, Vector{});
    Store(ds + j, Vector{});
  }
}

// The same with dropout: the gradient of a dropped probability is 0, and dv uses the dropped
// probabilities. The factors therefore apply to ds before the softmax and to p after it.
FT_INLINE void BackwardSoftmaxDropped(const FtAttentionBackward& g, const BackwardBlock& block,
                                      const View& view, const Bend& bend, float scale, int64_t i,
                                      const Drawn& at) {
  if (g.random.probability == 0.0F) {
    BackwardSoftmax(block, view, bend, i, scale);
    return;
  }
  float factors[kBackwardKeys];
  KeepFactors(g.random, at.sample, at.head, at.query + i, at.key, view.keys, factors);
  float* p = block.p + i * kBackwardKeys;
  float* ds = block.ds + i * kBackwardKeys;
  for (int64_t j = 0; j < view.keys; ++j) {
    ds[j] *= factors[j];
  }
  BackwardSoftmax(block, view, bend, i, scale);
  for (int64_t j = 0; j < view.keys; ++j) {
    p[j] *= factors[j];
  }
}

// dv += p^T dout, dk += ds^T queries. Several query heads share a key head (GQA), so both
// accumulate.
FT_INLINE void BackwardKeysValues(const BackwardBlock& block, const View& view) {
  for (int64_t j = 0; j < view.keys; j += kStripRows) {
    const int64_t rows = Least(kStripRows, view.keys - j);
    // Queries before `first` or from `end` on see none of these keys.
    const int64_t first = Clamp(j - view.ahead, 0, view.queries);
    const int64_t end = view.QueriesOf(j + rows - 1);
    if (first >= end) {
      continue;
    }
    StripArguments s{.depth = end - first,
                     .a = block.p + first * kBackwardKeys + j,
                     .a_stride = kBackwardKeys,
                     .b = block.dout + first * block.value_width,
                     .b_stride = block.value_width,
                     .c = block.dv + j * block.value_width,
                     .c_stride = block.value_width,
                     .scale = block.ones};
    StripProduct<Along::kColumn>(s, rows, block.value_width / kLanes);
    s.a = block.ds + first * kBackwardKeys + j;
    s.b = block.queries + first * block.width;
    s.b_stride = block.width;
    s.c = block.dk + j * block.width;
    s.c_stride = block.width;
    StripProduct<Along::kColumn>(s, rows, block.width / kLanes);
  }
}

// dq (+)= ds keys for a strip of queries; `to` is the first query's row of dq. If head_dim is not a
// whole number of vectors, the strip goes through block.dq, because a whole vector would overwrite
// the next head.
FT_INLINE void BackwardQueries(const FtAttentionBackward& g, const BackwardBlock& block,
                               const View& view, int64_t i, int64_t rows, float* to, bool add) {
  // Otherwise a whole vector would pass the end of the slice.
  const bool whole = g.head_dim == block.width;
  const int64_t first = view.FirstOf(i);
  StripProduct<Along::kRow>({.depth = view.KeysOf(i + rows - 1) - first,
                             .a = block.ds + i * kBackwardKeys + first,
                             .a_stride = kBackwardKeys,
                             .b = block.keys + first * block.width,
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

// Copies a block of queries with their dout, lse and delta; `row` is the first query's row. delta =
// sum of dout * out replaces the sum of p * dp over all keys (Dao et al. 2022), so that a block of
// keys needs no other block.
FT_INLINE void BackwardLoadQueries(const FtAttentionBackward& g, const BackwardBlock& block,
                                   int64_t row, int64_t head, int64_t queries) {
  const int64_t value_dim = ValueDim(g);
  const int64_t out_stride = int64_t{g.heads} * value_dim;
  const float* out = Floats(g.out) + row * out_stride + head * value_dim;
  const float* dout = Floats(g.dout) + row * out_stride + head * value_dim;
  const float* q = Floats(g.q) + row * g.row_stride + head * g.head_dim;
  CopyRows(q, g.row_stride, queries, g.head_dim, block.queries, block.width);
  CopyRows(dout, out_stride, queries, value_dim, block.dout, block.value_width);
  for (int64_t i = 0; i < queries; ++i) {
    block.lse[i] = g.lse[(row + i) * g.heads + head] * kLog2E;
    block.delta[i] = SumOver(
        value_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          return access.load(out + i * out_stride + c) * access.load(dout + i * out_stride + c);
        });
  }
}

// Cuts the scratch into the buffers of one block; kAttentionScratch counts the same ones.
FT_INLINE BackwardBlock TakeBackwardBlock(int64_t head_dim, int64_t value_dim, float* scratch) {
  ScratchParts parts(scratch);
  BackwardBlock block{};
  block.width = RoundUp(head_dim, kLanes);
  block.value_width = RoundUp(value_dim, kLanes);
  const int64_t key_rows = kBackwardKeys * block.width;
  const int64_t value_rows = kBackwardKeys * block.value_width;
  block.key_columns = parts.Take(key_rows);
  block.value_columns = parts.Take(value_rows);
  block.keys = parts.Take(key_rows);
  block.dk = parts.Take(key_rows);
  block.dv = parts.Take(value_rows);
  block.queries = parts.Take(kBackwardQueries * block.width);
  block.dout = parts.Take(kBackwardQueries * block.value_width);
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

// Gradients through keys [j, j + keys) of one key head; j counts from the document's first row.
// Keys form the outer loop, so dk and dv are written once. dq receives one addition per key block,
// in the order of the blocks.
FT_INLINE void BackwardOfKeys(const FtAttentionBackward& g, const BackwardBlock& block,
                              const Document& document, int64_t kv_head, int64_t j) {
  const int64_t start = document.row;
  const float scale = ScoreScale(g.scale, g.head_dim);
  const int64_t group = g.heads / g.kv_heads;
  const int64_t keys = Least(kBackwardKeys, document.length - j);
  const int64_t value_dim = ValueDim(g);
  const int64_t at = (start + j) * g.row_stride + kv_head * g.head_dim;
  const int64_t value_at = (start + j) * g.row_stride + kv_head * value_dim;
  const int64_t window = WindowOf(g.window);
  // Later queries see none of these keys.
  const int64_t end = Least(document.length, j + keys - 1 + window);
  const bool adds = window < document.length;  // dq was cleared, so every block adds
  CopyTransposed(Floats(g.k) + at, g.row_stride, keys, g.head_dim, kLog2E * scale,
                 block.key_columns, kBackwardKeys);
  CopyTransposed(Floats(g.v) + value_at, g.row_stride, keys, value_dim, 1.0F, block.value_columns,
                 kBackwardKeys);
  CopyRows(Floats(g.k) + at, g.row_stride, keys, g.head_dim, block.keys, block.width);
  memset(block.dk, 0, static_cast<size_t>(keys * block.width) * sizeof(float));
  memset(block.dv, 0, static_cast<size_t>(keys * block.value_width) * sizeof(float));
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const Bend bend = BendOf(g, head);
    for (int64_t i = j; i < end; i += kBackwardQueries) {
      const int64_t queries = Least(kBackwardQueries, end - i);
      const View view{.queries = queries, .keys = keys, .ahead = i - j, .window = window};
      BackwardLoadQueries(g, block, start + i, head, queries);
      float* dq = Floats(g.dq) + (start + i) * g.row_stride + head * g.head_dim;
      for (int64_t q = 0; q < queries; q += kStripRows) {
        const int64_t rows = Least(kStripRows, queries - q);
        BackwardScores(g, block, view, q, rows);
        for (int64_t row = q; row < q + rows; ++row) {
          BackwardSoftmaxDropped(g, block, view, bend, scale, row,
                                 {document.sample, head, document.first + i, document.first + j});
        }
        BackwardQueries(g, block, view, q, rows, dq + q * g.row_stride, adds || j > 0);
      }
      BackwardKeysValues(block, view);
    }
  }
  for (int64_t i = 0; i < keys; ++i) {
    ForEachVector(
        g.head_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(Floats(g.dk) + at + i * g.row_stride + c,
                       Load(block.dk + i * block.width + c));
        });
    ForEachVector(
        value_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(Floats(g.dv) + value_at + i * g.row_stride + c,
                       Load(block.dv + i * block.value_width + c));
        });
  }
}

// Sets dq of a key head's queries to 0. With a window, the first key block does not reach every
// query, so it cannot overwrite dq.
FT_INLINE void BackwardClearQueries(const FtAttentionBackward& g, const Document& document,
                                    int64_t kv_head) {
  const int64_t width = g.heads / g.kv_heads * int64_t{g.head_dim};
  const auto bytes = static_cast<size_t>(width) * sizeof(float);
  for (int64_t row = document.row; row < document.row + document.length; ++row) {
    memset(Floats(g.dq) + row * g.row_stride + kv_head * width, 0, bytes);
  }
}

// Loops: samples and key heads, documents, then blocks of keys. The order of all additions is
// fixed, so equal inputs give equal bits. Five products a pair of query and key: scores, dp, dv,
// dk, dq.
inline void AttentionBackward(const FtAttentionBackward& g, float* scratch) {
  const BackwardBlock block = TakeBackwardBlock(g.head_dim, ValueDim(g), scratch);
  for (int64_t item = 0; item < g.batch * g.kv_heads; ++item) {
    for (int64_t first = 0; first < g.sequence;) {
      const Document document = DocumentAt(g, item / g.kv_heads, first);
      if (WindowOf(g.window) < document.length) {
        BackwardClearQueries(g, document, item % g.kv_heads);
      }
      for (int64_t j = 0; j < document.length; j += kBackwardKeys) {
        BackwardOfKeys(g, block, document, item % g.kv_heads, j);
      }
      first += document.length;
    }
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

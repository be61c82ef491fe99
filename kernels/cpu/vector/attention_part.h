// Attention of some queries over some keys, both given as runs of rows with positions. Ranks
// compute this when a sequence is split over them. A part continues from the result of earlier
// ones, so parts over disjoint keys merge in the running softmax (Dao et al. 2022; Liu et al.
// 2023).
//
// The blocks are those of attention_forward.h and attention_backward.h. Pairs of blocks without a
// visible key are skipped. A learned bias by distance is added to scores; its gradient is summed
// over samples and queries in a fixed order.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/attention_backward.h"
#include "kernels/cpu/vector/attention_blocks.h"
#include "kernels/cpu/vector/attention_forward.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Rows between the keys of two samples.
template <class Arguments>
FT_INLINE int64_t KeySampleRows(const Arguments& g) {
  return g.key_sample_rows > 0 ? g.key_sample_rows : g.sample_rows;
}

// The part as arguments of whole attention; row_stride is that of the keys.
FT_INLINE FtAttentionForward AsWhole(const FtAttentionPartForward& g) {
  FtAttentionForward whole{};
  whole.out = g.out;
  whole.lse = g.lse;
  whole.row_stride = g.kv_stride;
  whole.heads = g.heads;
  whole.kv_heads = g.kv_heads;
  whole.head_dim = g.head_dim;
  whole.value_dim = g.value_dim;
  whole.scale = g.scale;
  whole.random = g.random;
  return whole;
}

// The same for the backward; row_stride is that of the queries.
FT_INLINE FtAttentionBackward AsWhole(const FtAttentionPartBackward& g) {
  FtAttentionBackward whole{};
  whole.q = g.q;
  whole.out = g.out;
  whole.lse = g.lse;
  whole.dout = g.dout;
  whole.row_stride = g.q_stride;
  whole.heads = g.heads;
  whole.kv_heads = g.kv_heads;
  whole.head_dim = g.head_dim;
  whole.value_dim = g.value_dim;
  whole.scale = g.scale;
  whole.random = g.random;
  return whole;
}

// Number of query rows from `row` on whose document begins where that of `row` does, at most
// `most`. Documents of consecutive rows begin one after the other.
template <class Arguments>
FT_INLINE int64_t RowsOfDocument(const Arguments& g, int64_t row, int64_t most) {
  if (g.document_starts == nullptr) return most;
  int64_t rows = 1;
  while (rows < most && g.document_starts[row + rows] == g.document_starts[row]) ++rows;
  return rows;
}
// Position at which the document of a query row begins.
template <class Arguments>
FT_INLINE int64_t DocumentStart(const Arguments& g, int64_t row) {
  return g.document_starts != nullptr ? g.document_starts[row] : 0;
}

// Initial running maximum, sum and output of the queries from `row` on: empty, or the merged result
// so far. An earlier result with log-sum lse is equivalent to one key with score lse, so its sum is
// 1.
FT_INLINE void PartStart(const FtAttentionPartForward& g, const ForwardBlock& block, int64_t row,
                         int64_t head, int64_t queries) {
  for (int64_t c = 0; c < kForwardQueries; c += kLanes) {
    Store(block.most + c, Set(kNoScore));
    Store(block.sum + c, Vector{});
  }
  memset(block.out, 0, static_cast<size_t>(queries * block.width) * sizeof(float));
  if (g.merge == 0) {
    return;
  }
  const int64_t value_dim = ValueDim(g);
  const int64_t out_stride = int64_t{g.heads} * value_dim;
  CopyRows(Floats(g.out) + row * out_stride + head * value_dim, out_stride, queries, value_dim,
           block.out, block.width);
  for (int64_t i = 0; i < queries; ++i) {
    const float lse = g.lse[(row + i) * g.heads + head];
    if (lse != -__builtin_inff()) {
      block.most[i] = lse * kLog2E;
      block.sum[i] = 1.0F;
    }
  }
}

// Queries that have seen no key get output 0 and lse -inf.
FT_INLINE void PartFinish(const FtAttentionForward& whole, const ForwardBlock& block, int64_t row,
                          int64_t head, int64_t queries) {
  for (int64_t i = 0; i < queries; ++i) {
    if (block.sum[i] == 0.0F) {
      block.sum[i] = 1.0F;
      block.most[i] = -__builtin_inff();
    }
  }
  ForwardFinish(whole, block, row, head, queries);
}

// Processes `queries` queries of one document, from i on of a run, for one head of a sample.
FT_INLINE void PartForwardOfQueries(const FtAttentionPartForward& g,
                                    const FtAttentionForward& whole, const ForwardBlock& block,
                                    const FtRun& run, int64_t sample, int64_t head, int64_t i,
                                    int64_t queries) {
  const int64_t shift = sample * g.sample_rows, key_shift = sample * KeySampleRows(g);
  const float scale = kLog2E * ScoreScale(g.scale, g.head_dim);
  const int64_t value_dim = ValueDim(g);
  const int64_t kv_head = head / (g.heads / g.kv_heads);
  const Bend bend = BendOf(g, head);
  const int64_t row = run.row + shift + i;
  const int64_t position = run.position + i;
  const int64_t start = DocumentStart(g, row);
  const int64_t window = WindowOf(g.window);
  CopyTransposed(Floats(g.q) + row * g.q_stride + head * g.head_dim, g.q_stride, queries,
                 g.head_dim, scale, block.queries, kForwardQueries);
  PartStart(g, block, row, head, queries);
  for (int64_t r = 0; r < g.key_run_count; ++r) {
    const FtRun& keys = g.key_runs[r];
    const int64_t seen = Least(keys.rows, position + queries - keys.position);
    const int64_t first =
        Greatest(Greatest(0, start - keys.position), position + 1 - window - keys.position);
    for (int64_t j = first; j < seen; j += kForwardKeys) {
      const View view{.queries = queries,
                      .keys = Least(kForwardKeys, seen - j),
                      .ahead = position - keys.position - j,
                      .window = window};
      const int64_t at = (keys.row + key_shift + j) * g.kv_stride;
      ForwardScores(whole, block, view, Floats(g.k) + at + kv_head * g.head_dim);
      ForwardBend(block, view, bend);
      for (int64_t c = 0; c < queries; c += kLanes) {
        ForwardSoftmax(block, view, c);
      }
      ForwardDrop(g.random, block, view, {sample, head, position, keys.position + j});
      CopyRows(Floats(g.v) + at + kv_head * value_dim, g.kv_stride, view.keys, value_dim,
               block.values, block.width);
      ForwardValues(block, view);
    }
  }
  PartFinish(whole, block, row, head, queries);
}

// Loops: samples and heads, query runs, blocks of queries. Key runs are visited in the order given,
// so the order of additions does not depend on timing.
inline void AttentionPartForward(const FtAttentionPartForward& g, float* scratch) {
  const ForwardBlock block = TakeForwardBlock(g.head_dim, ValueDim(g), scratch);
  const FtAttentionForward whole = AsWhole(g);
  for (int64_t item = 0; item < g.batch * g.heads; ++item) {
    for (int64_t r = 0; r < g.query_run_count; ++r) {
      const FtRun& run = g.query_runs[r];
      const int64_t sample = item / g.heads;
      for (int64_t i = 0; i < run.rows;) {
        const int64_t queries = RowsOfDocument(g, run.row + sample * g.sample_rows + i,
                                               Least(kForwardQueries, run.rows - i));
        PartForwardOfQueries(g, whole, block, run, sample, item % g.heads, i, queries);
        i += queries;
      }
    }
  }
}

// Queries of one run against keys [j, j + keys) of another: adds to dq, block.dk and block.dv.
FT_INLINE void PartBackwardOfRun(const FtAttentionPartBackward& g, const FtAttentionBackward& whole,
                                 const BackwardBlock& block, const FtRun& run, int64_t sample,
                                 int64_t head, int64_t key_position, int64_t keys) {
  const int64_t shift = sample * g.sample_rows;
  const float scale = ScoreScale(g.scale, g.head_dim);
  const int64_t window = WindowOf(g.window);
  const int64_t ahead = run.position - key_position;  // first query of the run minus first key
  const Bend bend = BendOf(g, head);
  const int64_t end = Least(run.rows, keys - 1 + window - ahead);
  for (int64_t i = Greatest(0, -ahead), next = i; i < end; i = next) {
    const int64_t row = run.row + shift + i;
    const int64_t queries = RowsOfDocument(g, row, Least(kBackwardQueries, end - i));
    next = i + queries;
    const int64_t begin = Greatest(0, DocumentStart(g, row) - key_position);
    if (begin >= keys) break;  // and so are the documents of later queries
    const View view{
        .queries = queries, .keys = keys, .ahead = ahead + i, .window = window, .begin = begin};
    BackwardLoadQueries(whole, block, row, head, queries);
    float* dq = Floats(g.dq) + row * g.q_stride + head * g.head_dim;
    for (int64_t q = 0; q < queries; q += kStripRows) {
      const int64_t rows = Least(kStripRows, queries - q);
      BackwardScores(whole, block, view, q, rows);
      for (int64_t one = q; one < q + rows; ++one) {
        BackwardSoftmaxDropped(whole, block, view, bend, scale, one,
                               {sample, head, run.position + i, key_position});
      }
      BackwardQueries(whole, block, view, q, rows, dq + q * g.q_stride, /*add=*/true);
    }
    BackwardKeysValues(block, view);
  }
}

// Gradients through the keys from j on of a run, for one key head of one sample. dk and dv are
// written once, after all query runs.
FT_INLINE void PartBackwardOfKeys(const FtAttentionPartBackward& g,
                                  const FtAttentionBackward& whole, const BackwardBlock& block,
                                  const FtRun& run, int64_t sample, int64_t kv_head, int64_t j) {
  const float scale = ScoreScale(g.scale, g.head_dim);
  const int64_t group = g.heads / g.kv_heads;
  const int64_t keys = Least(kBackwardKeys, run.rows - j);
  const int64_t row = run.row + sample * KeySampleRows(g) + j;
  const int64_t value_dim = ValueDim(g);
  const int64_t at = row * g.kv_stride + kv_head * g.head_dim;
  const int64_t value_at = row * g.kv_stride + kv_head * value_dim;
  CopyTransposed(Floats(g.k) + at, g.kv_stride, keys, g.head_dim, kLog2E * scale, block.key_columns,
                 kBackwardKeys);
  CopyTransposed(Floats(g.v) + value_at, g.kv_stride, keys, value_dim, 1.0F, block.value_columns,
                 kBackwardKeys);
  CopyRows(Floats(g.k) + at, g.kv_stride, keys, g.head_dim, block.keys, block.width);
  memset(block.dk, 0, static_cast<size_t>(keys * block.width) * sizeof(float));
  memset(block.dv, 0, static_cast<size_t>(keys * block.value_width) * sizeof(float));
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t r = 0; r < g.query_run_count; ++r) {
      PartBackwardOfRun(g, whole, block, g.query_runs[r], sample, head, run.position + j, keys);
    }
  }
  const int64_t to = row * g.dkv_stride + kv_head * g.head_dim;
  const int64_t value_to = row * g.dkv_stride + kv_head * value_dim;
  for (int64_t i = 0; i < keys; ++i) {
    ForEachVector(
        g.head_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(Floats(g.dk) + to + i * g.dkv_stride + c,
                       Load(block.dk + i * block.width + c));
        });
    ForEachVector(
        value_dim, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(Floats(g.dv) + value_to + i * g.dkv_stride + c,
                       Load(block.dv + i * block.value_width + c));
        });
  }
}

// Sets dq to 0 for all query rows.
FT_INLINE void PartClearQueries(const FtAttentionPartBackward& g) {
  const auto bytes = static_cast<size_t>(int64_t{g.heads} * g.head_dim) * sizeof(float);
  for (int64_t sample = 0; sample < g.batch; ++sample) {
    for (int64_t r = 0; r < g.query_run_count; ++r) {
      const int64_t first = g.query_runs[r].row + sample * g.sample_rows;
      for (int64_t row = first; row < first + g.query_runs[r].rows; ++row) {
        memset(Floats(g.dq) + row * g.q_stride, 0, bytes);
      }
    }
  }
}

// Loops: samples and key heads, key runs, blocks of keys. dk and dv are written once; dq receives
// one addition a block of keys.
inline void AttentionPartBackward(const FtAttentionPartBackward& g, float* scratch) {
  const BackwardBlock block = TakeBackwardBlock(g.head_dim, ValueDim(g), scratch);
  const FtAttentionBackward whole = AsWhole(g);
  if (g.accumulate_dq == 0) {
    PartClearQueries(g);
  }
  if (g.bias_grad != nullptr) {
    memset(g.bias_grad, 0, static_cast<size_t>(g.heads * g.bias_stride) * sizeof(float));
  }
  for (int64_t item = 0; item < g.batch * g.kv_heads; ++item) {
    for (int64_t r = 0; r < g.key_run_count; ++r) {
      for (int64_t j = 0; j < g.key_runs[r].rows; j += kBackwardKeys) {
        PartBackwardOfKeys(g, whole, block, g.key_runs[r], item / g.kv_heads, item % g.kv_heads, j);
      }
    }
  }
}

// Both sides may have gaps between rows.
inline void CopyRowRange(const FtCopyRows& g) {
  const auto bytes = static_cast<size_t>(g.cols) * sizeof(float);
  for (int64_t row = 0; row < g.rows; ++row) {
    memcpy(Floats(g.to) + row * g.to_stride, Floats(g.from) + row * g.from_stride, bytes);
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE

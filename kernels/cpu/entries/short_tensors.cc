// Entries on 16-bit tensors and 8-bit codes: the fp32 entry runs on fp32 copies, and its outputs
// are rounded back. A call on fp32 tensors copies nothing. The file is long because it lists the
// tensors of every entry.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/wide_copies.h"

namespace foretrain {
namespace {

// FT_F32 if every dtype is fp32 or has a copy. Otherwise the first dtype without one, so that the
// entry refuses it.
FtDtype Widened(std::initializer_list<FtDtype> dtypes) {
  for (const FtDtype dtype : dtypes) {
    if (!IsShort(dtype) && dtype != FT_F32) return dtype;
  }
  return FT_F32;
}

// Short names for the extents of dense tensors.
Extent Rows(std::int64_t rows, std::int64_t cols) { return Extent::Dense(rows, cols); }
Extent Row(std::int64_t elements) { return Extent::Vector(elements); }

// Each ToWide replaces the short tensors of a call by copies and its dtypes by FT_F32. `reads` is
// set for an output that is also read (accumulation) or written only in part.
void ToWide(WideCopies& wide, FtGemm& g) {
  const Extent a = g.trans_a != 0 ? Extent{g.k, g.m, g.lda} : Extent{g.m, g.k, g.lda};
  const Extent b = g.trans_b != 0 ? Extent{g.n, g.k, g.ldb} : Extent{g.k, g.n, g.ldb};
  if (IsCode(g.dtype)) {
    g.a = wide.Codes(g.a, g.dtype, a, g.a_scaling, g.a_scale);
    g.b = wide.Codes(g.b, FT_FP8, b, g.b_scaling, g.b_scale);
    g.dtype = FT_F32;
    g.a_scale = g.b_scale = nullptr;
  } else {
    g.a = wide.In(g.a, g.dtype, a);
    g.b = wide.In(g.b, g.dtype, b);
  }
  g.bias = wide.In(g.bias, g.bias_dtype, Row(g.n));
  g.c = wide.Out(g.c, g.c_dtype, {g.m, g.n, g.ldc}, g.accumulate != 0);
  const Extent aux{g.m, g.n, g.ld_aux};
  g.aux = g.epilogue == FT_EPILOGUE_ACTIVATE ? wide.Out(g.aux, g.c_dtype, aux, false)
                                             : const_cast<void*>(wide.In(g.aux, g.c_dtype, aux));
  g.row_sums = wide.Out(g.row_sums, g.row_sums_dtype, Row(g.m), g.accumulate != 0);
  g.dtype = Widened({g.dtype, g.bias_dtype, g.c_dtype, g.row_sums_dtype});
  g.bias_dtype = g.c_dtype = g.row_sums_dtype = FT_F32;
}

// An accumulated gradient is read before it is added to, so its copy must hold the old values.
void ToWide(WideCopies& wide, FtBiasGrad& g) {
  g.dy = wide.In(g.dy, g.dtype, Rows(g.rows, g.cols));
  g.grad = wide.Out(g.grad, g.grad_dtype, Row(g.cols), g.accumulate != 0);
  g.dtype = Widened({g.dtype, g.grad_dtype});
  g.grad_dtype = FT_F32;
}

// Runs may name positions past the sequence's length, so the copied table must reach the last one.
void ToWide(WideCopies& wide, FtEmbeddingForward& g) {
  std::int64_t positions = g.sequence;
  for (std::int64_t i = 0; g.runs != nullptr && i < g.run_count; ++i) {
    positions = std::max(positions, g.runs[i].position + g.runs[i].rows);
  }
  g.table = wide.In(g.table, g.table_dtype, Rows(g.vocab, g.cols));
  g.positions = wide.In(g.positions, g.table_dtype, Rows(positions, g.cols));
  g.out = wide.Out(g.out, g.dtype, Rows(g.rows, g.cols), false);
  g.dtype = Widened({g.dtype, g.table_dtype});
  g.table_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtEmbeddingBackward& g) {
  std::int64_t positions = g.sequence;
  for (std::int64_t i = 0; g.runs != nullptr && i < g.run_count; ++i) {
    positions = std::max(positions, g.runs[i].position + g.runs[i].rows);
  }
  g.dy = wide.In(g.dy, g.dtype, Rows(g.rows, g.cols));
  // Always read: rows of ids that do not occur keep their values only if the copy holds them.
  g.table_grad = wide.Out(g.table_grad, g.grad_dtype, Rows(g.vocab, g.cols), true);
  g.positions_grad = wide.Out(g.positions_grad, g.grad_dtype, Rows(positions, g.cols), true);
  g.dtype = Widened({g.dtype, g.grad_dtype});
  g.grad_dtype = FT_F32;
}

// mean and rstd are always fp32 and need no copy.
void ToWide(WideCopies& wide, FtNormForward& g) {
  g.x = wide.In(g.x, g.dtype, Rows(g.rows, g.cols));
  g.weight = wide.In(g.weight, g.weight_dtype, Row(g.cols));
  g.bias = wide.In(g.bias, g.weight_dtype, Row(g.cols));
  g.y = wide.Out(g.y, g.dtype, Rows(g.rows, g.cols), false);
  g.dtype = Widened({g.dtype, g.weight_dtype});
  g.weight_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtNormBackwardInput& g) {
  const Extent all = Rows(g.rows, g.cols);
  g.dy = wide.In(g.dy, g.dtype, all);
  g.x = wide.In(g.x, g.dtype, all);
  g.weight = wide.In(g.weight, g.weight_dtype, Row(g.cols));
  g.residual = wide.In(g.residual, g.dtype, all);
  g.dx = wide.Out(g.dx, g.dtype, all, false);
  g.dtype = Widened({g.dtype, g.weight_dtype});
  g.weight_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtNormBackwardWeight& g) {
  g.dy = wide.In(g.dy, g.dtype, Rows(g.rows, g.cols));
  g.x = wide.In(g.x, g.dtype, Rows(g.rows, g.cols));
  g.weight_grad = wide.Out(g.weight_grad, g.grad_dtype, Row(g.cols), g.accumulate != 0);
  g.bias_grad = wide.Out(g.bias_grad, g.grad_dtype, Row(g.cols), g.accumulate != 0);
  g.dtype = Widened({g.dtype, g.grad_dtype});
  g.grad_dtype = FT_F32;
}

// The norm reads the sum as stored (rounded), so that the bits equal those of two kernels.
FtStatus AddNormForward(const FtDeviceApi& entries, FtQueue* queue, const FtAddNormForward* g) {
  const FtAdd add{g->a, g->b, g->bias, g->sum, g->rows, g->cols, g->dtype, g->weight_dtype};
  if (const FtStatus status = entries.add(queue, &add); status != FT_OK) return status;
  const FtNormForward norm{g->sum,  g->weight, g->norm_bias, g->y,   g->mean,  g->rstd,
                           g->rows, g->cols,   g->epsilon,   g->rms, g->dtype, g->weight_dtype};
  return entries.norm_forward(queue, &norm);
}

// Covers all heads. The copy is read, because with a head_stride only a part of each head is
// rotated.
void ToWide(WideCopies& wide, FtRope& g) {
  const std::int64_t head = g.head_stride > 0 ? g.head_stride : g.head_dim;
  const Extent rotated{g.rows, (g.heads - 1) * head + g.head_dim, g.row_stride};
  g.data = wide.Out(g.data, g.dtype, rotated, true);
  g.dtype = Widened({g.dtype});
}

// Slices of the same rows that one copy can serve; `first` is the lowest address.
struct Slices {
  const std::uint16_t* first;
  Extent extent;

  std::int64_t OffsetOf(const void* slice) const {
    return static_cast<const std::uint16_t*>(slice) - first;
  }
};
struct Slice {
  const void* at;
  std::int64_t width;
};
// The smallest extent that covers all slices: from the lowest address to the furthest end.
template <std::size_t n>
Slices Join(const Slice (&slices)[n], std::int64_t rows, std::int64_t stride) {
  const auto* first = static_cast<const std::uint16_t*>(slices[0].at);
  for (const Slice& slice : slices) {
    first = std::min(first, static_cast<const std::uint16_t*>(slice.at));
  }
  Slices joined{first, {rows, 0, stride}};
  for (const Slice& slice : slices) {
    joined.extent.cols = std::max(joined.extent.cols, joined.OffsetOf(slice.at) + slice.width);
  }
  return joined;
}

// Rows that a tensor needs to hold the runs of all samples.
std::int64_t RowsOf(const FtRun* runs, std::int64_t count, std::int64_t batch,
                    std::int64_t sample_rows) {
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < count; ++i) end = std::max(end, runs[i].row + runs[i].rows);
  return batch > 0 && end > 0 ? (batch - 1) * sample_rows + end : 0;
}

// True if the slices are parts of the same rows: q, k and v (or their gradients) in one packed
// tensor.
bool ShareRows(const Slices& slices) { return slices.extent.cols <= slices.extent.stride; }

// Elements per row of q, k, v and out.
struct Heads {
  std::int64_t q, k, v, out;
};
template <class Arguments>
Heads WidthsOf(const Arguments& g) {
  std::int64_t value_dim = g.head_dim;
  if constexpr (requires { g.value_dim; }) value_dim = g.value_dim > 0 ? g.value_dim : value_dim;
  return {std::int64_t{g.heads} * g.head_dim, std::int64_t{g.kv_heads} * g.head_dim,
          g.kv_heads * value_dim, g.heads * value_dim};
}

// Reads slices through one copy if they share rows, otherwise each through its own.
template <class... Slot>
void ReadSlices(WideCopies& wide, FtDtype dtype, std::int64_t rows, std::int64_t stride,
                std::int64_t (&widths)[sizeof...(Slot)], Slot&... slots) {
  const void** at[] = {&slots...};
  if (((slots == nullptr) || ...)) return;  // a null tensor: the entry refuses it
  Slice slices[sizeof...(Slot)];
  for (std::size_t i = 0; i < sizeof...(Slot); ++i) slices[i] = {*at[i], widths[i]};
  const Slices joined = Join(slices, rows, stride);
  const bool shared = ShareRows(joined);
  const auto* const copy =
      shared ? static_cast<const float*>(wide.In(joined.first, dtype, joined.extent)) : nullptr;
  if (wide.status() != FT_OK) return;
  for (std::size_t i = 0; i < sizeof...(Slot); ++i) {
    *at[i] =
        shared ? copy + joined.OffsetOf(*at[i]) : wide.In(*at[i], dtype, {rows, widths[i], stride});
  }
}

// The same for outputs. The copy is read, so that values between the slices survive the store.
template <class... Slot>
void WriteSlices(WideCopies& wide, FtDtype dtype, std::int64_t rows, std::int64_t stride,
                 std::int64_t (&widths)[sizeof...(Slot)], Slot&... slots) {
  void** at[] = {&slots...};
  if (((slots == nullptr) || ...)) return;
  Slice slices[sizeof...(Slot)];
  for (std::size_t i = 0; i < sizeof...(Slot); ++i) slices[i] = {*at[i], widths[i]};
  const Slices joined = Join(slices, rows, stride);
  const bool shared = ShareRows(joined);
  auto* const first = const_cast<std::uint16_t*>(joined.first);
  auto* const copy =
      shared ? static_cast<float*>(wide.Out(first, dtype, joined.extent, true)) : nullptr;
  if (wide.status() != FT_OK) return;
  for (std::size_t i = 0; i < sizeof...(Slot); ++i) {
    *at[i] = shared ? copy + joined.OffsetOf(*at[i])
                    : wide.Out(*at[i], dtype, {rows, widths[i], stride}, true);
  }
}

void ToWide(WideCopies& wide, FtAttentionForward& g) {
  if (!IsShort(g.dtype)) return;
  const std::int64_t rows = g.batch * g.sequence;
  const Heads width = WidthsOf(g);
  std::int64_t widths[] = {width.q, width.k, width.v};
  ReadSlices(wide, g.dtype, rows, g.row_stride, widths, g.q, g.k, g.v);
  g.out = wide.Out(g.out, g.dtype, Rows(rows, width.out), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtAttentionBackward& g) {
  if (!IsShort(g.dtype)) return;
  const std::int64_t rows = g.batch * g.sequence;
  const Heads width = WidthsOf(g);
  std::int64_t widths[] = {width.q, width.k, width.v};
  ReadSlices(wide, g.dtype, rows, g.row_stride, widths, g.q, g.k, g.v);
  g.out = wide.In(g.out, g.dtype, Rows(rows, width.out));
  g.dout = wide.In(g.dout, g.dtype, Rows(rows, width.out));
  WriteSlices(wide, g.dtype, rows, g.row_stride, widths, g.dq, g.dk, g.dv);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtAttentionPartForward& g) {
  if (!IsShort(g.dtype)) return;
  const std::int64_t queries = RowsOf(g.query_runs, g.query_run_count, g.batch, g.sample_rows);
  const std::int64_t keys = RowsOf(g.key_runs, g.key_run_count, g.batch, g.sample_rows);
  const Heads width = WidthsOf(g);
  std::int64_t of_keys[] = {width.k, width.v};
  g.q = wide.In(g.q, g.dtype, {queries, width.q, g.q_stride});
  ReadSlices(wide, g.dtype, keys, g.kv_stride, of_keys, g.k, g.v);
  g.out = wide.Out(g.out, g.dtype, Rows(queries, width.out), true);
  g.dtype = Widened({g.dtype});
}

// dq, dk and dv may be slices of one packed tensor, as q, k and v are with all-to-all context
// parallelism. They then need a single copy, or storing one would overwrite the others.
void ToWide(WideCopies& wide, FtAttentionPartBackward& g) {
  if (!IsShort(g.dtype)) return;
  const std::int64_t queries = RowsOf(g.query_runs, g.query_run_count, g.batch, g.sample_rows);
  const std::int64_t keys = RowsOf(g.key_runs, g.key_run_count, g.batch, g.sample_rows);
  const Heads width = WidthsOf(g);
  std::int64_t of_keys[] = {width.k, width.v};
  g.q = wide.In(g.q, g.dtype, {queries, width.q, g.q_stride});
  ReadSlices(wide, g.dtype, keys, g.kv_stride, of_keys, g.k, g.v);
  g.out = wide.In(g.out, g.dtype, Rows(queries, width.out));
  g.dout = wide.In(g.dout, g.dtype, Rows(queries, width.out));
  const Slice all[] = {{g.dq, width.q}, {g.dk, width.k}, {g.dv, width.v}};
  const bool packed = g.dq != nullptr && queries == keys && g.q_stride == g.dkv_stride &&
                      ShareRows(Join(all, keys, g.dkv_stride));
  if (packed) {
    std::int64_t widths[] = {width.q, width.k, width.v};
    WriteSlices(wide, g.dtype, keys, g.dkv_stride, widths, g.dq, g.dk, g.dv);
  } else {
    g.dq = wide.Out(g.dq, g.dtype, {queries, width.q, g.q_stride}, true);
    WriteSlices(wide, g.dtype, keys, g.dkv_stride, of_keys, g.dk, g.dv);
  }
  g.dtype = Widened({g.dtype});
}

// Forward reads q, kv and turned_key and writes qkv; the inverse does the opposite.
void ToWide(WideCopies& wide, FtLatentHeads& g) {
  const std::int64_t heads = g.heads, plain = g.head_dim - g.rotary;
  const auto copy = [&](void* tensor, std::int64_t cols, bool written) {
    return written ? wide.Out(tensor, g.dtype, Rows(g.rows, cols), false)
                   : const_cast<void*>(wide.In(tensor, g.dtype, Rows(g.rows, cols)));
  };
  const bool splits = g.inverse != 0;
  g.q = copy(g.q, heads * g.head_dim, splits);
  g.kv = copy(g.kv, heads * (plain + g.value_dim), splits);
  g.turned_key = copy(g.turned_key, g.rotary, splits);
  g.qkv = copy(g.qkv, heads * (2 * g.head_dim + g.value_dim), !splits);
  g.dtype = Widened({g.dtype});
}

// out is scaled in place, so its copy is read and written.
void ToWide(WideCopies& wide, FtSinkForward& g) {
  g.out = wide.Out(g.out, g.dtype, Rows(g.rows, std::int64_t{g.heads} * g.head_dim), true);
  g.sinks = wide.In(g.sinks, g.sinks_dtype, Row(g.heads));
  g.dtype = Widened({g.dtype, g.sinks_dtype});
  g.sinks_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtSinkBackward& g) {
  const Extent all = Rows(g.rows, std::int64_t{g.heads} * g.head_dim);
  g.out = wide.In(g.out, g.dtype, all);
  g.dout = wide.In(g.dout, g.dtype, all);
  g.sinks = wide.In(g.sinks, g.sinks_dtype, Row(g.heads));
  g.sinks_grad = wide.Out(g.sinks_grad, g.grad_dtype, Row(g.heads), g.accumulate != 0);
  g.dtype = Widened({g.dtype, g.sinks_dtype, g.grad_dtype});
  g.sinks_dtype = g.grad_dtype = FT_F32;
}

// x is read and written in place; rows after the last run must keep their values.
void ToWide(WideCopies& wide, FtExpertBias& g) {
  g.x = wide.Out(g.x, g.dtype, Rows(g.rows, g.cols), true);
  g.bias = wide.In(g.bias, g.bias_dtype, Rows(g.experts, g.cols));
  g.dtype = Widened({g.dtype, g.bias_dtype});
  g.bias_dtype = FT_F32;
}

// Extent of an attention matrix [batch, heads, sequence, sequence].
Extent Scores(std::int64_t batch, std::int32_t heads, std::int64_t sequence) {
  return Rows(batch * heads * sequence, sequence);
}

void ToWide(WideCopies& wide, FtStandardAttentionForward& g) {
  if (!IsShort(g.dtype)) return;
  const std::int64_t rows = g.batch * g.sequence;
  const Heads width = WidthsOf(g);
  const Extent scores = Scores(g.batch, g.heads, g.sequence);
  std::int64_t widths[] = {width.q, width.k, width.v};
  ReadSlices(wide, g.dtype, rows, g.row_stride, widths, g.q, g.k, g.v);
  g.scores = wide.Out(g.scores, g.dtype, scores, false);
  g.weights = wide.Out(g.weights, g.dtype, scores, false);
  g.dropped = wide.Out(g.dropped, g.dtype, scores, false);
  g.out = wide.Out(g.out, g.dtype, Rows(rows, width.q), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtStandardAttentionBackward& g) {
  if (!IsShort(g.dtype)) return;
  const std::int64_t rows = g.batch * g.sequence;
  const Heads width = WidthsOf(g);
  const Extent scores = Scores(g.batch, g.heads, g.sequence);
  std::int64_t widths[] = {width.q, width.k, width.v};
  ReadSlices(wide, g.dtype, rows, g.row_stride, widths, g.q, g.k, g.v);
  g.weights = wide.In(g.weights, g.dtype, scores);
  g.dropped = wide.In(g.dropped, g.dtype, scores);
  g.dout = wide.In(g.dout, g.dtype, Rows(rows, width.q));
  g.d_scores = wide.Out(g.d_scores, g.dtype, scores, false);
  WriteSlices(wide, g.dtype, rows, g.row_stride, widths, g.dq, g.dk, g.dv);
  g.dtype = Widened({g.dtype});
}

// Absent tensors are null, and In and Out pass null on. The mask is bytes in every precision.
void ToWide(WideCopies& wide, FtDropout& g) {
  const Extent all = Rows(g.rows, g.cols);
  g.x = wide.In(g.x, g.dtype, all);
  g.bias = wide.In(g.bias, g.bias_dtype, Row(g.cols));
  g.residual = wide.In(g.residual, g.dtype, all);
  g.out = wide.Out(g.out, g.dtype, all, false);
  g.dtype = Widened({g.dtype, g.bias_dtype});
  g.bias_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtExpertBiasGrad& g) {
  g.dy = wide.In(g.dy, g.dtype, Rows(g.rows, g.cols));
  g.bias_grad = wide.Out(g.bias_grad, g.grad_dtype, Rows(g.experts, g.cols), g.accumulate != 0);
  g.dtype = Widened({g.dtype, g.grad_dtype});
  g.grad_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtDropoutBackward& g) {
  g.dy = wide.In(g.dy, g.dtype, Row(g.elements));
  g.dx = wide.Out(g.dx, g.dtype, Row(g.elements), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtGelu& g) {
  g.x = wide.In(g.x, g.dtype, Row(g.elements));
  g.dy = wide.In(g.dy, g.dtype, Row(g.elements));
  g.out = wide.Out(g.out, g.dtype, Row(g.elements), false);
  g.dtype = Widened({g.dtype});
}

// Only the backward has a dy; its output has both halves.
void ToWide(WideCopies& wide, FtSwiglu& g) {
  const std::int64_t out_cols = g.dy == nullptr ? g.cols : 2 * g.cols;
  g.x = wide.In(g.x, g.dtype, Rows(g.rows, 2 * g.cols));
  g.dy = wide.In(g.dy, g.dtype, Rows(g.rows, g.cols));
  g.out = wide.Out(g.out, g.dtype, Rows(g.rows, out_cols), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtAdd& g) {
  g.a = wide.In(g.a, g.dtype, Rows(g.rows, g.cols));
  g.b = wide.In(g.b, g.dtype, Rows(g.rows, g.cols));
  g.bias = wide.In(g.bias, g.bias_dtype, Row(g.cols));
  g.out = wide.Out(g.out, g.dtype, Rows(g.rows, g.cols), false);
  g.dtype = Widened({g.dtype, g.bias_dtype});
  g.bias_dtype = FT_F32;
}

// Probabilities, weights and indices are fp32 or integers in every precision.
void ToWide(WideCopies& wide, FtRoute& g) {
  g.logits = wide.In(g.logits, g.dtype, Rows(g.rows, g.experts));
  g.choice_bias = wide.In(g.choice_bias, g.choice_bias_dtype, Row(g.experts));
  g.dtype = Widened({g.dtype, g.choice_bias_dtype});
  g.choice_bias_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtRouteBackward& g) {
  g.d_logits = wide.Out(g.d_logits, g.dtype, Rows(g.rows, g.experts), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtExpertGather& g) {
  g.x = wide.In(g.x, g.dtype, Rows(g.tokens, g.cols));
  g.out = wide.Out(g.out, g.dtype, Rows(g.expert_rows, g.cols), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtExpertCombine& g) {
  g.x = wide.In(g.x, g.dtype, Rows(g.expert_rows, g.cols));
  g.out = wide.Out(g.out, g.dtype, Rows(g.tokens, g.cols), false);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtExpertDots& g) {
  g.dy = wide.In(g.dy, g.dtype, Rows(g.tokens, g.cols));
  g.x = wide.In(g.x, g.dtype, Rows(g.expert_rows, g.cols));
  g.dtype = Widened({g.dtype});
}

// c is read as well: rows after the last run keep their values.
void ToWide(WideCopies& wide, FtGroupedGemm& g) {
  const Extent weights = Rows(g.experts * g.out, g.in), in = Rows(g.rows, g.in),
               out = Rows(g.rows, g.out);
  const bool forward = g.mode == FT_GROUPED_FORWARD, weight = g.mode == FT_GROUPED_WEIGHT;
  const Extent of_a = forward ? in : out, of_b = weight ? in : weights;
  if (IsCode(g.dtype)) {
    g.a = wide.Codes(g.a, g.dtype, of_a, g.a_scaling, g.a_scale);
    g.b = wide.Codes(g.b, FT_FP8, of_b, g.b_scaling, g.b_scale);
    g.dtype = FT_F32;
    g.a_scale = g.b_scale = nullptr;
  } else {
    g.a = wide.In(g.a, g.dtype, of_a);
    g.b = wide.In(g.b, g.dtype, of_b);
  }
  g.c = wide.Out(g.c, g.c_dtype, weight ? weights : forward ? out : in, true);
  g.dtype = Widened({g.dtype, g.c_dtype});
  g.c_dtype = FT_F32;
}

void ToWide(WideCopies& wide, FtGateForward& g) {
  g.x = wide.In(g.x, g.dtype, Rows(g.rows, g.cols));
  g.y = wide.Out(g.y, g.dtype, Rows(g.rows, g.cols), g.accumulate != 0);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtGateBackward& g) {
  g.dy = wide.In(g.dy, g.dtype, Rows(g.rows, g.cols));
  g.x = wide.In(g.x, g.dtype, Rows(g.rows, g.cols));
  g.dx = wide.Out(g.dx, g.dtype, Rows(g.rows, g.cols), false);
  g.dtype = Widened({g.dtype});
}

// The sum is fp32: squares of 16-bit gradients would overflow fp16.
void ToWide(WideCopies& wide, FtSquaredNorm& g) {
  g.x = wide.In(g.x, g.dtype, Row(g.elements));
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtQuantizeTensor& g) {
  const Extent all = Rows(g.rows, g.cols);
  if (IsCode(g.dtype)) {
    g.x = wide.Codes(g.x, g.dtype, all, g.x_scaling, g.x_scale);
    g.dtype = FT_F32;
    return;
  }
  g.x = wide.In(g.x, g.dtype, all);
  g.dtype = Widened({g.dtype});
}

void ToWide(WideCopies& wide, FtCountNotFinite& g) {
  g.x = wide.In(g.x, g.dtype, Row(g.elements));
  g.dtype = Widened({g.dtype});
}

// Shared by AdamW and SGD. Moments need no copy: the update kernels convert them themselves.
template <class Update>
void UpdateToWide(WideCopies& wide, Update& g) {
  g.param = wide.Out(g.param, g.dtype, Row(g.elements), true);
  g.grad = wide.In(g.grad, g.grad_dtype, Row(g.elements));
  g.dtype = Widened({g.dtype, g.grad_dtype});
  g.grad_dtype = FT_F32;
}
void ToWide(WideCopies& wide, FtAdamW& g) { UpdateToWide(wide, g); }
void ToWide(WideCopies& wide, FtSgd& g) { UpdateToWide(wide, g); }

// The quantized side of a (de)quantization is handled by the entry.
// `reads_long`: x is the unquantized side; otherwise out is.
void ToWide(WideCopies& wide, FtQuantize& g, bool reads_long) {
  if (reads_long) {
    g.x = wide.In(g.x, g.dtype, Row(g.elements));
  } else {
    g.out = wide.Out(g.out, g.dtype, Row(g.elements), false);
  }
  g.dtype = Widened({g.dtype});
}

// ---- entries

// The entries before wrapping; set once by SetShortTensorEntries.
FtDeviceApi& Inner() {
  static FtDeviceApi entries{};
  return entries;
}

// Runs an entry on fp32 copies and stores its outputs only on success. Costs one pass over each
// short tensor.
template <auto entry, class Arguments>
FtStatus Run(FtQueue* queue, const Arguments* g) {
  // The inner entry refuses any other dtype; all but gemm-like entries refuse codes.
  if (g->dtype != FT_F32 && !IsShort(g->dtype) && !IsCode(g->dtype))
    return (Inner().*entry)(queue, g);
  WideCopies wide(queue);
  Arguments arguments = *g;
  ToWide(wide, arguments);
  if (wide.status() != FT_OK) return wide.status();
  const FtStatus status = (Inner().*entry)(queue, &arguments);
  if (status == FT_OK) wide.Store();
  return status;
}

// Runs the update, then rounds the new parameters into the 16-bit weights for the next forward
// pass.
template <auto entry, class Update>
FtStatus RunUpdate(FtQueue* queue, const Update* g) {
  const FtStatus status = Run<entry>(queue, g);
  if (status != FT_OK || g->weights == nullptr) return status;
  if (g->dtype != FT_F32 || !IsShort(g->weights_dtype)) {
    std::snprintf(queue->error, sizeof queue->error,
                  "cpu update: weights of dtype %d beside parameters of dtype %d: only 16 bits "
                  "beside fp32",
                  g->weights_dtype, g->dtype);
    return FT_UNSUPPORTED;
  }
  Narrow(g->weights_dtype, static_cast<const float*>(g->param), g->weights, g->elements);
  return FT_OK;
}

// If any tensor is short, runs the wrapped add and norm one after the other.
FtStatus RunAddNorm(FtQueue* queue, const FtAddNormForward* g) {
  const bool is_short = IsShort(g->dtype) || IsShort(g->weight_dtype);
  if (!is_short) return Inner().add_norm_forward(queue, g);
  FtDeviceApi entries{};
  entries.add = &Run<&FtDeviceApi::add, FtAdd>;
  entries.norm_forward = &Run<&FtDeviceApi::norm_forward, FtNormForward>;
  return AddNormForward(entries, queue, g);
}

// A 16-bit target format is a plain rounding, which needs no scales.
FtStatus RunQuantize(FtQueue* queue, const FtQuantize* g) {
  WideCopies wide(queue);
  FtQuantize arguments = *g;
  ToWide(wide, arguments, /*reads_long=*/true);
  if (wide.status() != FT_OK) return wide.status();
  if (!IsShort(g->format) || g->elements < 0) return Inner().quantize(queue, &arguments);
  Narrow(g->format, static_cast<const float*>(arguments.x), g->out, g->elements);
  return FT_OK;
}

FtStatus RunDequantize(FtQueue* queue, const FtQuantize* g) {
  WideCopies wide(queue);
  FtQuantize arguments = *g;
  ToWide(wide, arguments, /*reads_long=*/false);
  if (wide.status() != FT_OK) return wide.status();
  if (IsShort(g->format) && g->elements >= 0) {
    Widen(g->format, g->x, static_cast<float*>(arguments.out), g->elements);
    wide.Store();
    return FT_OK;
  }
  const FtStatus status = Inner().dequantize(queue, &arguments);
  if (status == FT_OK) wide.Store();
  return status;
}

// Sums all ranks in fp32 and rounds once. Works in pieces of 1,024, so it needs no copies.
FtStatus RunSumRanks(FtQueue* queue, const FtSumRanks* g) {
  if (!IsShort(g->dtype)) return Inner().sum_ranks(queue, g);
  constexpr std::int64_t kPiece = 1024;
  float sum[kPiece], other[kPiece];
  for (std::int64_t begin = 0; begin < g->elements; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, g->elements - begin);
    for (std::int32_t rank = 0; rank < g->count; ++rank) {
      const auto* const from = static_cast<const std::uint16_t*>(g->sources[rank]) + begin;
      Widen(g->dtype, from, rank == 0 ? sum : other, count);
      for (std::int64_t i = 0; rank > 0 && i < count; ++i) {
        sum[i] = g->maximum != 0 ? std::max(sum[i], other[i]) : sum[i] + other[i];
      }
    }
    Narrow(g->dtype, sum, static_cast<std::uint16_t*>(g->out) + begin, count);
  }
  return FT_OK;
}

// Copies bits; converting to fp32 and back would only cost time.
FtStatus RunCopyRows(FtQueue* queue, const FtCopyRows* g) {
  if (!IsShort(g->dtype)) return Inner().copy_rows(queue, g);
  const auto* const from = static_cast<const std::uint16_t*>(g->from);
  auto* const to = static_cast<std::uint16_t*>(g->to);
  for (std::int64_t row = 0; row < g->rows; ++row) {
    std::memcpy(to + row * g->to_stride, from + row * g->from_stride,
                static_cast<std::size_t>(g->cols) * sizeof(std::uint16_t));
  }
  return FT_OK;
}

#define FT_SHORT(entry, Arguments) api.entry = &Run<&FtDeviceApi::entry, Arguments>

}  // namespace

void SetShortTensorEntries(FtDeviceApi& api) {
  Inner() = api;
  FT_SHORT(gemm, FtGemm);
  FT_SHORT(bias_grad, FtBiasGrad);
  FT_SHORT(embedding_forward, FtEmbeddingForward);
  FT_SHORT(embedding_backward, FtEmbeddingBackward);
  FT_SHORT(norm_forward, FtNormForward);
  FT_SHORT(norm_backward_input, FtNormBackwardInput);
  FT_SHORT(norm_backward_weight, FtNormBackwardWeight);
  FT_SHORT(rope, FtRope);
  FT_SHORT(attention_forward, FtAttentionForward);
  FT_SHORT(attention_backward, FtAttentionBackward);
  FT_SHORT(attention_part_forward, FtAttentionPartForward);
  FT_SHORT(attention_part_backward, FtAttentionPartBackward);
  FT_SHORT(standard_attention_forward, FtStandardAttentionForward);
  FT_SHORT(standard_attention_backward, FtStandardAttentionBackward);
  FT_SHORT(dropout, FtDropout);
  FT_SHORT(dropout_backward, FtDropoutBackward);
  FT_SHORT(gelu_forward, FtGelu);
  FT_SHORT(gelu_backward, FtGelu);
  FT_SHORT(swiglu_forward, FtSwiglu);
  FT_SHORT(swiglu_backward, FtSwiglu);
  FT_SHORT(add, FtAdd);
  FT_SHORT(route, FtRoute);
  FT_SHORT(route_backward, FtRouteBackward);
  FT_SHORT(expert_gather, FtExpertGather);
  FT_SHORT(expert_combine, FtExpertCombine);
  FT_SHORT(expert_dots, FtExpertDots);
  FT_SHORT(grouped_gemm, FtGroupedGemm);
  FT_SHORT(squared_norm, FtSquaredNorm);
  FT_SHORT(latent_heads, FtLatentHeads);
  FT_SHORT(sink_forward, FtSinkForward);
  FT_SHORT(sink_backward, FtSinkBackward);
  FT_SHORT(gate_forward, FtGateForward);
  FT_SHORT(gate_backward, FtGateBackward);
  FT_SHORT(expert_bias, FtExpertBias);
  FT_SHORT(expert_bias_grad, FtExpertBiasGrad);
  FT_SHORT(count_not_finite, FtCountNotFinite);
  FT_SHORT(quantize_tensor, FtQuantizeTensor);
  api.add_norm_forward = &RunAddNorm;
  api.adamw = &RunUpdate<&FtDeviceApi::adamw, FtAdamW>;
  api.sgd = &RunUpdate<&FtDeviceApi::sgd, FtSgd>;
  api.quantize = &RunQuantize;
  api.dequantize = &RunDequantize;
  api.sum_ranks = &RunSumRanks;
  api.copy_rows = &RunCopyRows;
}
#undef FT_SHORT

}  // namespace foretrain

// Arguments of attention and of the ops around it: rope, latent heads, sinks.
#include <algorithm>

#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxRows = 0x7fffffff;  // devices index rows in 32 bits

// Checks the sizes that all kinds of attention share.
template <class Arguments>
void Sizes(ArgumentReader& reader, Arguments& g, std::int64_t sample_rows) {
  reader.Float("dtype", g.dtype).Size("batch", g.batch).Size("rows of a sample", sample_rows);
  reader.HeadDim("head_dim", g.head_dim).AtLeast("heads", g.heads, 1);
  reader.AtLeast("kv_heads", g.kv_heads, 1);
  if constexpr (requires { g.window; }) reader.Size("window", g.window);
  if constexpr (requires { g.value_dim; }) {
    reader.HeadDim("value_dim", g.value_dim > 0 ? g.value_dim : g.head_dim);
    reader.Size("alibi_heads", g.alibi_heads).Size("first_head", g.first_head);
  }
  if constexpr (requires { g.random; }) {
    reader.Probability(g.random.probability);
  } else {
    reader.Probability(g.probability);
  }
  if (reader.ok() && g.heads % g.kv_heads != 0) {
    reader.Refuse(FT_FAILED, "%d heads cannot share %d key heads evenly", g.heads, g.kv_heads);
  }
  if (reader.ok() && sample_rows > 0 && g.batch > kMaxRows / sample_rows) {
    reader.Refuse(FT_FAILED, "batch %lld of %lld rows each has over 2^31 rows",
                  static_cast<long long>(g.batch), static_cast<long long>(sample_rows));
  }
}

// Elements per row of q, k, v and out.
struct Widths {
  std::int64_t q, k, v, out;

  template <class Arguments>
  explicit Widths(const Arguments& g)
      : q(std::int64_t{g.heads} * g.head_dim),
        k(std::int64_t{g.kv_heads} * g.head_dim),
        v(k),
        out(q) {
    if constexpr (requires { g.value_dim; }) {
      if (g.value_dim > 0)
        v = std::int64_t{g.kv_heads} * g.value_dim, out = std::int64_t{g.heads} * g.value_dim;
    }
  }
};

// Sizes, packed q, k and v, and for a backward their gradients.
template <class Arguments>
void Packed(ArgumentReader& reader, Arguments& g) {
  Sizes(reader, g, g.sequence);
  const Widths width(g);
  reader.AtLeast("row_stride", g.row_stride, width.q);
  if (!reader.ok()) return;
  const std::int64_t rows = g.batch * g.sequence;
  const Extent q{rows, width.q, g.row_stride}, k{rows, width.k, g.row_stride},
      v{rows, width.v, g.row_stride};
  reader.Slices(
      {Read("q", g.q, g.dtype, q), Read("k", g.k, g.dtype, k), Read("v", g.v, g.dtype, v)});
  if constexpr (requires { g.dq; }) {
    reader.Slices({ReadWrite("dq", g.dq, g.dtype, q), ReadWrite("dk", g.dk, g.dtype, k),
                   ReadWrite("dv", g.dv, g.dtype, v)});
  }
}

// Checks that a head's row of biases has an element for each distance of the runs.
template <class Arguments>
void Biases(ArgumentReader& reader, const Arguments& g) {
  if (!reader.ok() || g.bias == nullptr) return;
  for (std::int64_t q = 0; q < g.query_run_count; ++q) {
    for (std::int64_t k = 0; k < g.key_run_count; ++k) {
      const FtRun& queries = g.query_runs[q];
      const FtRun& keys = g.key_runs[k];
      if (queries.rows == 0 || keys.rows == 0) continue;
      const std::int64_t first =
          g.bias_zero + keys.position - (queries.position + queries.rows - 1);
      const std::int64_t last = g.bias_zero + keys.position + keys.rows - 1 - queries.position;
      if (first >= 0 && last < g.bias_stride) continue;
      reader.Refuse(FT_FAILED, "bias: distances take elements %lld to %lld of %lld",
                    static_cast<long long>(first), static_cast<long long>(last),
                    static_cast<long long>(g.bias_stride));
      return;
    }
  }
  if (g.window != 0) {
    reader.Refuse(FT_FAILED, "window %lld: must be 0 with a bias",
                  static_cast<long long>(g.window));
  }
}

// Checks the runs. Returns the number of rows that a tensor needs to hold them for all samples.
std::int64_t RowsOfRuns(ArgumentReader& reader, const char* name, const FtRun* runs,
                        std::int64_t count, std::int64_t batch, std::int64_t sample_rows) {
  std::int64_t end = 0;
  reader.Size(name, count).Tensors({Plain(name, runs, Row(count))});
  for (std::int64_t i = 0; reader.ok() && i < count; ++i) {
    const FtRun& run = runs[i];
    reader.Size("row of a run", run.row).Size("position of a run", run.position);
    reader.Size("rows of a run", run.rows);
    if (reader.ok() && std::max({run.row, run.position, run.rows}) > kMaxRows) {
      reader.Refuse(FT_FAILED, "%s: run %lld lies past row or position 2^31", name,
                    static_cast<long long>(i));
    }
    if (reader.ok() && run.rows > 0) end = std::max(end, run.row + run.rows);
  }
  return batch > 0 && end > 0 ? (batch - 1) * sample_rows + end : 0;
}

// Sizes, q, k, v and lse of a part. Returns the extent of out.
template <class Arguments>
Extent Part(ArgumentReader& reader, Arguments& g) {
  Sizes(reader, g, g.sample_rows);
  const Widths width(g);
  reader.AtLeast("q_stride", g.q_stride, width.q).AtLeast("kv_stride", g.kv_stride, width.k);
  const std::int64_t queries =
      RowsOfRuns(reader, "query_runs", g.query_runs, g.query_run_count, g.batch, g.sample_rows);
  const std::int64_t key_rows = g.key_sample_rows > 0 ? g.key_sample_rows : g.sample_rows;
  reader.Size("key_sample_rows", g.key_sample_rows).Size("bias_stride", g.bias_stride);
  const std::int64_t keys =
      RowsOfRuns(reader, "key_runs", g.key_runs, g.key_run_count, g.batch, key_rows);
  Biases(reader, g);
  if (!reader.ok()) return {};
  reader.Tensors({Read("q", g.q, g.dtype, {queries, width.q, g.q_stride}),
                  Plain("lse", g.lse, Rows(queries, g.heads))});
  reader.Slices({Read("k", g.k, g.dtype, {keys, width.k, g.kv_stride}),
                 Read("v", g.v, g.dtype, {keys, width.v, g.kv_stride})});
  if constexpr (requires { g.dkv_stride; }) {
    reader.AtLeast("dkv_stride", g.dkv_stride, width.k);
    reader.Slices({ReadWrite("dq", g.dq, g.dtype, {queries, width.q, g.q_stride}),
                   ReadWrite("dk", g.dk, g.dtype, {keys, width.k, g.dkv_stride}),
                   ReadWrite("dv", g.dv, g.dtype, {keys, width.v, g.dkv_stride})});
  }
  return Rows(queries, width.out);
}

}  // namespace

void Describe(ArgumentReader& reader, FtAttentionForward& g) {
  Packed(reader, g);
  if (!reader.ok()) return;
  const std::int64_t rows = g.batch * g.sequence;
  reader.Tensors({Write("out", g.out, g.dtype, Rows(rows, Widths(g).out)),
                  Plain("lse", g.lse, Rows(rows, g.heads))});
}

void Describe(ArgumentReader& reader, FtAttentionBackward& g) {
  Packed(reader, g);
  if (!reader.ok()) return;
  const std::int64_t rows = g.batch * g.sequence;
  const Extent out = Rows(rows, Widths(g).out);
  reader.Tensors({Read("out", g.out, g.dtype, out), Plain("lse", g.lse, Rows(rows, g.heads)),
                  Read("dout", g.dout, g.dtype, out)});
}

// Queries without a key in this part keep their out.
void Describe(ArgumentReader& reader, FtAttentionPartForward& g) {
  const Extent out = Part(reader, g);
  reader.Tensors({ReadWrite("out", g.out, g.dtype, out)});
}

void Describe(ArgumentReader& reader, FtAttentionPartBackward& g) {
  const Extent out = Part(reader, g);
  reader.Tensors({Read("out", g.out, g.dtype, out), Read("dout", g.dout, g.dtype, out)});
}

void Describe(ArgumentReader& reader, FtStandardAttentionForward& g) {
  Packed(reader, g);
  if (!reader.ok()) return;
  const Extent scores = Rows(g.batch * g.heads * g.sequence, g.sequence);
  reader.Tensors(
      {Write("scores", g.scores, g.dtype, scores), Write("weights", g.weights, g.dtype, scores),
       Write("dropped", g.dropped, g.dtype, scores, g.mask != nullptr),
       Write("out", g.out, g.dtype, Rows(g.batch * g.sequence, Widths(g).out), kOptional)});
}

void Describe(ArgumentReader& reader, FtStandardAttentionBackward& g) {
  Packed(reader, g);
  if (!reader.ok()) return;
  const Extent scores = Rows(g.batch * g.heads * g.sequence, g.sequence);
  reader.Tensors({Read("weights", g.weights, g.dtype, scores),
                  Read("dropped", g.dropped, g.dtype, scores, g.mask != nullptr),
                  Read("dout", g.dout, g.dtype, Rows(g.batch * g.sequence, Widths(g).out)),
                  Write("d_scores", g.d_scores, g.dtype, scores)});
}

// A row must hold all heads, and a rotary pair needs an even head_dim. With a head_stride only a
// part of each head is rotated. YaRN and Llama 3 rescaling need low < high.
void Describe(ArgumentReader& reader, FtRope& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("sequence", g.sequence, 1);
  reader.Size("heads", g.heads).HeadDim("head_dim", g.head_dim);
  const std::int64_t head_stride = g.head_stride > 0 ? g.head_stride : g.head_dim;
  reader.AtLeast("head_stride", head_stride, g.head_dim);
  reader.AtLeast("row_stride", g.row_stride, g.heads * head_stride);
  const std::int64_t cols = (g.heads - 1) * head_stride + g.head_dim;
  reader.Tensors({ReadWrite("data", g.data, g.dtype, {g.rows, cols, g.row_stride})});
  if (g.stretch < FT_ROPE_PLAIN || g.stretch > FT_ROPE_QUERY_GROWTH) {
    reader.Refuse(FT_UNSUPPORTED, "stretch %d of frequencies", static_cast<int>(g.stretch));
  }
  const bool grows = g.stretch == FT_ROPE_QUERY_GROWTH;
  if (!grows && !(g.theta > 0)) {
    reader.Refuse(FT_FAILED, "theta %g: must be above 0", static_cast<double>(g.theta));
  }
  if (grows && !(g.original > 0)) {
    reader.Refuse(FT_FAILED, "original %g of growing queries must be above 0",
                  static_cast<double>(g.original));
  }
  if ((g.stretch == FT_ROPE_YARN || g.stretch == FT_ROPE_LLAMA3) && !(g.high > g.low)) {
    reader.Refuse(FT_FAILED, "high %g of stretched frequencies must be above low %g",
                  static_cast<double>(g.high), static_cast<double>(g.low));
  }
  if (g.head_dim % 2 != 0) {
    reader.Refuse(FT_FAILED, "head_dim %d: rotary positions need pairs", g.head_dim);
  }
}

// The forward reads q, kv and turned_key and writes qkv; the inverse does the opposite.
void Describe(ArgumentReader& reader, FtLatentHeads& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("heads", g.heads, 1);
  reader.HeadDim("head_dim", g.head_dim).HeadDim("value_dim", g.value_dim);
  reader.Size("rotary", g.rotary).AtLeast("head_dim", g.head_dim, g.rotary);
  if (!reader.ok()) return;
  const auto tensor = [&](const char* name, void*& at, std::int64_t cols, bool written) {
    return written ? Write(name, at, g.dtype, Rows(g.rows, cols))
                   : Read(name, at, g.dtype, Rows(g.rows, cols));
  };
  const std::int64_t heads = g.heads;
  const bool splits = g.inverse != 0;
  reader.Tensors({tensor("q", g.q, heads * g.head_dim, splits),
                  tensor("kv", g.kv, heads * (g.head_dim - g.rotary + g.value_dim), splits),
                  tensor("turned_key", g.turned_key, g.rotary, splits),
                  tensor("qkv", g.qkv, heads * (2 * g.head_dim + g.value_dim), !splits)});
}

namespace {

// Checks the sizes of a table of relative positions; a bucket's bounds need a positive logarithm.
template <class Arguments>
void Relative(ArgumentReader& reader, const Arguments& g) {
  reader.AtLeast("queries", g.queries, 1).AtMost("queries", g.queries, kMaxRows);
  reader.AtLeast("keys", g.keys, 1).AtMost("keys", g.keys, kMaxRows);
  reader.AtLeast("heads", g.heads, 1);
  reader.AtLeast("buckets", g.buckets, g.bidirectional != 0 ? 4 : 2);
  reader.AtLeast("max_distance", g.max_distance, g.buckets + 1);
}

}  // namespace

void Describe(ArgumentReader& reader, FtRelativeBias& g) {
  reader.Float("dtype", g.dtype);
  Relative(reader, g);
  reader.Tensors({Read("table", g.table, g.dtype, Rows(g.buckets, g.heads)),
                  Plain("bias", g.bias, Rows(g.heads, g.queries + g.keys - 1))});
}

void Describe(ArgumentReader& reader, FtRelativeBiasBackward& g) {
  reader.Float("dtype", g.dtype);
  Relative(reader, g);
  const Extent table = Rows(g.buckets, g.heads);
  reader.Tensors({Plain("bias_grad", g.bias_grad, Rows(g.heads, g.queries + g.keys - 1)),
                  Read("dy", g.dy, g.dtype, table), Write("dx", g.dx, g.dtype, table)});
}

void Describe(ArgumentReader& reader, FtSinkForward& g) {
  reader.Float("dtype", g.dtype).Float("sinks_dtype", g.sinks_dtype).Size("rows", g.rows);
  reader.AtLeast("heads", g.heads, 1).HeadDim("head_dim", g.head_dim);
  reader.Tensors(
      {ReadWrite("out", g.out, g.dtype, Rows(g.rows, std::int64_t{g.heads} * g.head_dim)),
       Plain("lse", g.lse, Rows(g.rows, g.heads)),
       Read("sinks", g.sinks, g.sinks_dtype, Row(g.heads))});
}

void Describe(ArgumentReader& reader, FtSinkBackward& g) {
  reader.Float("dtype", g.dtype).Float("sinks_dtype", g.sinks_dtype);
  reader.Float("grad_dtype", g.grad_dtype).Size("rows", g.rows);
  reader.AtLeast("heads", g.heads, 1).HeadDim("head_dim", g.head_dim);
  const Extent all = Rows(g.rows, std::int64_t{g.heads} * g.head_dim), row = Row(g.heads);
  reader.Tensors({Read("out", g.out, g.dtype, all), Plain("lse", g.lse, Rows(g.rows, g.heads)),
                  Read("sinks", g.sinks, g.sinks_dtype, row), Read("dout", g.dout, g.dtype, all),
                  Sum("sinks_grad", g.sinks_grad, g.grad_dtype, row, g.accumulate)});
}

}  // namespace foretrain

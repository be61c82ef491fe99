#include "kernels/cuda/library/cudnn_attention.h"

namespace foretrain {
namespace {

using Sizes = std::array<std::int64_t, 4>;

Sizes ScoresOf(const CudnnAttention& g) { return {g.batch, g.heads, g.sequence, g.sequence}; }
Sizes RowsOf(const CudnnAttention& g) { return {g.batch, g.heads, g.sequence, 1}; }
Sizes HeadsOf(const CudnnAttention& g) { return {g.batch, g.heads, g.sequence, g.head_dim}; }

// Shape [batch, heads, sequence, head_dim] of `heads` heads in rows that lie `stride` apart.
CudnnShape Rows(const CudnnAttention& g, std::int64_t heads, std::int64_t stride) {
  return {{g.batch, heads, g.sequence, g.head_dim}, {g.sequence * stride, g.head_dim, stride, 1}};
}
CudnnShape Queries(const CudnnAttention& g) { return Rows(g, g.heads, g.row_stride); }
CudnnShape Keys(const CudnnAttention& g) { return Rows(g, g.kv_heads, g.row_stride); }
CudnnShape Outputs(const CudnnAttention& g) { return Rows(g, g.heads, g.out_stride); }

// The same elements with the last two dimensions swapped.
CudnnShape Turned(const CudnnShape& x) {
  return {{x.sizes[0], x.sizes[1], x.sizes[3], x.sizes[2]},
          {x.strides[0], x.strides[1], x.strides[3], x.strides[2]}};
}

// Replaces scores of keys after their query by `nothing`.
CudnnTensor Causal(CudnnGraph& graph, const CudnnAttention& g, const CudnnTensor& scores,
                   const CudnnTensor& nothing) {
  const CudnnShape packed = PackedShape(ScoresOf(g));
  const CudnnTensor query = graph.Index(2, scores, graph.Between(packed, CudnnData::kInt32));
  const CudnnTensor key = graph.Index(3, scores, graph.Between(packed, CudnnData::kInt32));
  const CudnnTensor sees = graph.Pointwise(CudnnPointwise::kGreaterOrEqual, query, key,
                                           graph.Between(packed, CudnnData::kBoolean));
  return graph.Select(sees, scores, nothing, graph.Between(ScoresOf(g)));
}

// Scores [batch, heads, queries, keys] as [batch, heads, keys, queries], in the tensors' format.
CudnnTensor TurnedScores(CudnnGraph& graph, const CudnnAttention& g, const CudnnTensor& scores) {
  return graph.View(scores, graph.Between(Turned(PackedShape(ScoresOf(g))), g.data));
}

// gradient = turned [.., keys, queries] times rows [.., queries, head_dim], summed over the query
// heads that share a key head.
void KeyGradient(CudnnGraph& graph, const CudnnAttention& g, const CudnnTensor& turned,
                 const CudnnTensor& rows, const CudnnTensor& gradient) {
  if (g.heads == g.kv_heads) {
    graph.Product(turned, rows, gradient);
    return;
  }
  const CudnnTensor of_heads =
      graph.Product(turned, rows, graph.Between(PackedShape(HeadsOf(g)), g.data));
  graph.Reduce(CudnnReduction::kAdd, of_heads, gradient);
}

}  // namespace

// The engines recognize this exact sequence of operations: product, scale, mask, softmax by maximum
// and sum, product.
void DescribeForward(CudnnGraph& graph, const CudnnAttention& g) {
  const Sizes scores = ScoresOf(g), rows = RowsOf(g);
  const CudnnTensor q = graph.Stored(cudnn_id::kQ, Queries(g), g.data);
  const CudnnTensor k = graph.Stored(cudnn_id::kK, Turned(Keys(g)), g.data);
  const CudnnTensor v = graph.Stored(cudnn_id::kV, Keys(g), g.data);
  const CudnnTensor out = graph.Stored(cudnn_id::kOut, Outputs(g), g.data);
  const CudnnTensor lse = graph.Stored(cudnn_id::kLse, PackedShape(rows), CudnnData::kFloat);
  const CudnnTensor scale = graph.Number(cudnn_id::kScale);
  const CudnnTensor nothing = graph.Number(cudnn_id::kNothing);

  CudnnTensor s = graph.Product(q, k, graph.Between(scores));
  s = graph.Pointwise(CudnnPointwise::kMultiply, s, scale, graph.Between(scores));
  s = Causal(graph, g, s, nothing);
  const CudnnTensor most = graph.Reduce(CudnnReduction::kMaximum, s, graph.Between(rows));
  s = graph.Pointwise(CudnnPointwise::kSubtract, s, most, graph.Between(scores));
  const CudnnTensor power = graph.Pointwise(CudnnPointwise::kExp, s, graph.Between(scores));
  const CudnnTensor sum = graph.Reduce(CudnnReduction::kAdd, power, graph.Between(rows));
  const CudnnTensor log = graph.Pointwise(CudnnPointwise::kLog, sum, graph.Between(rows));
  graph.Pointwise(CudnnPointwise::kAdd, most, log, lse);
  const CudnnTensor weights = graph.Pointwise(CudnnPointwise::kDivide, power, sum,
                                              graph.Between(PackedShape(scores), g.data));
  graph.Product(weights, v, out);
}

void DescribeBackward(CudnnGraph& graph, const CudnnAttention& g, bool any_order) {
  const Sizes scores = ScoresOf(g), rows = RowsOf(g);
  const CudnnTensor q = graph.Stored(cudnn_id::kQ, Queries(g), g.data);
  const CudnnTensor k = graph.Stored(cudnn_id::kK, Turned(Keys(g)), g.data);
  const CudnnTensor v = graph.Stored(cudnn_id::kV, Turned(Keys(g)), g.data);
  const CudnnTensor out = graph.Stored(cudnn_id::kOut, Outputs(g), g.data);
  const CudnnTensor dout = graph.Stored(cudnn_id::kDout, Outputs(g), g.data);
  const CudnnTensor lse = graph.Stored(cudnn_id::kLse, PackedShape(rows), CudnnData::kFloat);
  const CudnnTensor dq = graph.Stored(cudnn_id::kDq, Queries(g), g.data);
  const CudnnTensor dk = graph.Stored(cudnn_id::kDk, Keys(g), g.data);
  const CudnnTensor dv = graph.Stored(cudnn_id::kDv, Keys(g), g.data);
  const CudnnTensor scale = graph.Number(cudnn_id::kScale);
  const CudnnTensor nothing = graph.Number(cudnn_id::kNothing);

  // delta = dout . out. The engines expect a factor after the sum (dropout's), here 1.
  const CudnnTensor dots =
      graph.Pointwise(CudnnPointwise::kMultiply, dout, out, graph.Between(HeadsOf(g)));
  const CudnnTensor summed = graph.Reduce(CudnnReduction::kAdd, dots, graph.Between(rows));
  const CudnnTensor delta =
      graph.Pointwise(CudnnPointwise::kMultiply, summed, graph.Number(cudnn_id::kOne),
                      graph.Stored(cudnn_id::kDelta, PackedShape(rows), CudnnData::kFloat));

  CudnnTensor s = graph.Product(q, k, graph.Between(scores));
  s = graph.Pointwise(CudnnPointwise::kMultiply, s, scale, graph.Between(scores));
  s = graph.Pointwise(CudnnPointwise::kSubtract, s, lse, graph.Between(scores));
  s = Causal(graph, g, s, nothing);
  const CudnnTensor weights = graph.Pointwise(CudnnPointwise::kExp, s, graph.Between(scores));
  KeyGradient(graph, g, TurnedScores(graph, g, weights), dout, dv);

  // d score = weight * (dout . v - delta) * scale.
  CudnnTensor d = graph.Product(dout, v, graph.Between(scores));
  d = graph.Pointwise(CudnnPointwise::kSubtract, d, delta, graph.Between(scores));
  d = graph.Pointwise(CudnnPointwise::kMultiply, d, weights, graph.Between(scores));
  d = graph.Pointwise(CudnnPointwise::kMultiply, d, scale, graph.Between(scores));
  KeyGradient(graph, g, TurnedScores(graph, g, d), q, dk);

  const CudnnTensor keys = graph.View(k, graph.Between(Keys(g), g.data));
  // In a fixed order dq is one product of the stored score gradients; otherwise blocks of keys add
  // to an fp32 sum in order of arrival.
  if (!any_order) {
    graph.Product(d, keys, dq);
    return;
  }
  const CudnnTensor sum = graph.Product(
      d, keys, graph.Stored(cudnn_id::kDqSum, PackedShape(HeadsOf(g)), CudnnData::kFloat));
  graph.Pointwise(CudnnPointwise::kIdentity, sum, dq);
}

}  // namespace foretrain

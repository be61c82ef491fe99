// Causal attention as graphs of cuDNN operations. cuDNN's flash attention engines recognize these
// products, reductions and maps as one operation (cuDNN documentation, Graph API, "Fused Flash
// Attention"). library_attention.h decides when to use them.
#pragma once

#include <cstdint>

#include "kernels/cuda/library/cudnn_graph.h"

namespace foretrain {

// Sizes of one graph: all samples and heads of a call, or some of them. Rows of q, k, v and their
// gradients lie row_stride elements apart, those of out and its gradient out_stride.
struct CudnnAttention {
  std::int64_t batch, sequence, row_stride, out_stride;
  std::int64_t heads, kv_heads, head_dim;
  CudnnData data;  // kBf16 or kHalf
};

// Tensor ids. lse and delta (dout . out) are fp32, packed as [batch, heads, sequence]. dq_sum is
// fp32, packed as [batch, heads, sequence, head_dim].
namespace cudnn_id {
enum : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kDelta, kDqSum };
enum : std::int64_t { kScale = 21, kNothing, kOne };  // by value; kNothing is -infinity, kOne is 1
}  // namespace cudnn_id

// Computes out and lse from q, k and v.
void DescribeForward(CudnnGraph& graph, const CudnnAttention& g);

// Computes dq, dk, dv and, on the way, delta. With any_order, blocks of keys add to dq_sum in order
// of arrival; the library clears it first. Otherwise the score gradients go to the workspace, 16
// bits each, and dq is one product of them.
void DescribeBackward(CudnnGraph& graph, const CudnnAttention& g, bool any_order);

}  // namespace foretrain

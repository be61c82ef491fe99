// Causal attention as graphs of cuDNN's operations: those products, reductions and maps that its
// flash attention engines know as one (cuDNN documentation, Graph API, "Fused Flash Attention").
// Leaves out when they are used and where the tensors lie (library_attention.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/cudnn_graph.h"

namespace foretrain {

// Of one graph: all samples and heads of a call, or some. Rows of q, k, v and their gradients lie
// row_stride elements apart, those of out and its gradient out_stride.
struct CudnnAttention {
  std::int64_t batch, sequence, row_stride, out_stride;
  std::int64_t heads, kv_heads, head_dim;
  CudnnData data;  // kBf16 or kHalf
};

// Tensors by number. Logarithms of sums of exponentials and delta, dout . out, are fp32 and lie
// packed as [batch, heads, sequence], as does dq_sum, [batch, heads, sequence, head_dim].
namespace cudnn_id {
enum : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kDelta, kDqSum };
enum : std::int64_t { kScale = 21, kNothing, kOne };  // by value: -infinity and 1
}  // namespace cudnn_id

// out and lse from q, k and v.
void DescribeForward(CudnnGraph& graph, const CudnnAttention& g);

// dq, dk and dv, and delta on the way. With any_order dq is summed in dq_sum, which is set to 0 by
// the library, as blocks of keys come; without, the gradients of scores are written to the
// workspace, 16 bits each, and dq is one product of them.
void DescribeBackward(CudnnGraph& graph, const CudnnAttention& g, bool any_order);

}  // namespace foretrain

// CPU entries of rope and of causal flash attention. Kernels use the scratch memory of the queue,
// so that a call allocates nothing.
#include <cstdint>
#include <limits>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// A row must hold all heads, and a rotary pair needs an even head_dim. YaRN and Llama 3 rescaling
// need low < high.
FtStatus Rope(FtQueue* queue, const FtRope* g) {
  Check check(queue, "rope", g->dtype);
  check.Size("rows", g->rows)
      .AtLeast("sequence", g->sequence, 1)
      .Size("heads", g->heads)
      .HeadDim(g->head_dim);
  const std::int64_t head_stride = g->head_stride > 0 ? g->head_stride : g->head_dim;
  check.AtLeast("head_stride", head_stride, g->head_dim);
  check.AtLeast("row_stride", g->row_stride, std::int64_t{g->heads} * head_stride);
  check.Tensor("data", g->data, g->rows, g->row_stride);
  if (check.ok() && (g->stretch < FT_ROPE_PLAIN || g->stretch > FT_ROPE_LLAMA3)) {
    check.Refuse(FT_UNSUPPORTED, "stretch %d of frequencies", static_cast<int>(g->stretch));
  }
  if (check.ok() && g->stretch >= FT_ROPE_YARN && !(g->high > g->low)) {
    check.Refuse(FT_FAILED, "high %g of stretched frequencies must be above low %g",
                 static_cast<double>(g->high), static_cast<double>(g->low));
  }
  if (g->head_dim % 2 != 0) {
    check.Refuse(FT_FAILED, "head_dim %d: rotary positions need pairs", g->head_dim);
  }
  if (check.ok()) {
    queue->kernels->rope(*g);
  }
  return check.status();
}

// Checks that forward and backward share. Rows are limited to 2^31, because other devices index
// them in 32 bits.
template <class Arguments>
void CheckAttention(Check& check, const Arguments& g) {
  check.Size("batch", g.batch).Size("sequence", g.sequence).HeadDim(g.head_dim);
  check.AtLeast("heads", g.heads, 1).AtLeast("kv_heads", g.kv_heads, 1).Size("window", g.window);
  const std::int64_t value_dim = g.value_dim > 0 ? g.value_dim : g.head_dim;
  check.HeadDim(value_dim).Size("alibi_heads", g.alibi_heads).Size("first_head", g.first_head);
  if (check.ok() && g.heads % g.kv_heads != 0) {
    check.Refuse(FT_FAILED, "%d heads cannot share %d key heads evenly", g.heads, g.kv_heads);
  }
  if (check.ok() && g.sequence > 0 &&
      g.batch > std::numeric_limits<std::int32_t>::max() / g.sequence) {
    check.Refuse(FT_FAILED, "batch %lld of sequence %lld has over 2^31 rows",
                 static_cast<long long>(g.batch), static_cast<long long>(g.sequence));
  }
  check.AtLeast("row_stride", g.row_stride, std::int64_t{g.heads} * g.head_dim);
  if (check.ok()) {
    const std::int64_t rows = g.batch * g.sequence;
    check.Tensor("q", g.q, rows, g.row_stride)
        .Tensor("k", g.k, rows, g.row_stride)
        .Tensor("v", g.v, rows, g.row_stride);
    check.Tensor("out", g.out, rows, value_dim).Tensor("lse", g.lse, rows, g.heads);
  }
}

// Writes lse besides the output, from which the backward recomputes the softmax.
FtStatus AttentionForward(FtQueue* queue, const FtAttentionForward* g) {
  Check check(queue, "attention_forward", g->dtype);
  CheckAttention(check, *g);
  if (check.ok()) {
    queue->kernels->attention_forward(*g, queue->scratch.get());
  }
  return check.status();
}

// dq, dk and dv share the strides of q, k and v, so only their presence is left to check.
FtStatus AttentionBackward(FtQueue* queue, const FtAttentionBackward* g) {
  Check check(queue, "attention_backward", g->dtype);
  CheckAttention(check, *g);
  if (check.ok()) {
    const std::int64_t rows = g->batch * g->sequence;
    check.Tensor("dout", g->dout, rows)
        .Tensor("dq", g->dq, rows)
        .Tensor("dk", g->dk, rows)
        .Tensor("dv", g->dv, rows);
  }
  if (check.ok()) {
    queue->kernels->attention_backward(*g, queue->scratch.get());
  }
  return check.status();
}

}  // namespace

void SetAttentionEntries(FtDeviceApi& api) {
  api.rope = &Rope;
  api.attention_forward = &AttentionForward;
  api.attention_backward = &AttentionBackward;
}

}  // namespace foretrain

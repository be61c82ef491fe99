// CPU entries of RMSNorm over each head of queries and keys.
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Checks that the three kernels share, and the tensors that the forward kept. Returns rows * all
// heads.
template <class Arguments>
std::int64_t CheckHeads(Check& check, const Arguments& g, const void* x) {
  check.Size("rows", g.rows).Size("heads", g.heads).Size("kv_heads", g.kv_heads);
  check.HeadDim(g.head_dim);
  const std::int64_t items = g.rows * (std::int64_t{g.heads} + g.kv_heads);
  check.Tensor("x", x, items, g.head_dim).Tensor("rstd", g.rstd, items);
  return items;
}

// A row holds query heads, then key heads.
template <class Arguments>
void CheckRows(Check& check, const Arguments& g, const void* data) {
  check.AtLeast("row_stride", g.row_stride,
                (std::int64_t{g.heads} + g.kv_heads) * std::int64_t{g.head_dim});
  check.Tensor("data", data, g.rows, g.row_stride);
  check.Tensor("q_weight", g.q_weight, g.head_dim).Tensor("k_weight", g.k_weight, g.head_dim);
}

FtStatus HeadNormForward(FtQueue* queue, const FtHeadNormForward* g) {
  Check check(queue, "head_norm_forward", g->dtype);
  CheckHeads(check, *g, g->kept);
  CheckRows(check, *g, g->data);
  if (check.ok()) {
    queue->kernels->head_norm_forward(*g);
  }
  return check.status();
}

// Replaces the gradient in place. kept_grad may be null: a frozen weight needs no copy of it.
FtStatus HeadNormBackwardInput(FtQueue* queue, const FtHeadNormBackwardInput* g) {
  Check check(queue, "head_norm_backward_input", g->dtype);
  CheckHeads(check, *g, g->x);
  CheckRows(check, *g, g->grad);
  if (check.ok()) {
    queue->kernels->head_norm_backward_input(*g);
  }
  return check.status();
}

// The two weights are shared by all heads, so each gradient sums over rows and heads.
FtStatus HeadNormBackwardWeight(FtQueue* queue, const FtHeadNormBackwardWeight* g) {
  Check check(queue, "head_norm_backward_weight", g->dtype);
  const std::int64_t items = CheckHeads(check, *g, g->x);
  check.Tensor("dy", g->dy, items, g->head_dim);
  check.Tensor("q_weight_grad", g->q_weight_grad, g->head_dim);
  check.Tensor("k_weight_grad", g->k_weight_grad, g->head_dim);
  if (check.ok()) {
    queue->kernels->head_norm_backward_weight(*g);
  }
  return check.status();
}

}  // namespace

void SetHeadNormEntries(FtDeviceApi& api) {
  api.head_norm_forward = &HeadNormForward;
  api.head_norm_backward_input = &HeadNormBackwardInput;
  api.head_norm_backward_weight = &HeadNormBackwardWeight;
}

}  // namespace foretrain

// CPU entries of LayerNorm and RMSNorm.
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// queue->kernels holds the kernels of this machine's instruction set. RMSNorm has no mean, so its
// tensor may be null. The norm of a row needs at least one column.
FtStatus NormForward(FtQueue* queue, const FtNormForward* g) {
  Check check(queue, "norm_forward", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("x", g->x, g->rows, g->cols)
      .Tensor("y", g->y, g->rows, g->cols)
      .Tensor("rstd", g->rstd, g->rows);
  check.Tensor("weight", g->weight, g->cols);
  if (g->rms == 0) {
    check.Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->norm_forward(*g);
  }
  return check.status();
}

// Residual sum and norm in one kernel: the sum is written once and normalized from cache.
FtStatus AddNormForward(FtQueue* queue, const FtAddNormForward* g) {
  Check check(queue, "add_norm_forward", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("a", g->a, g->rows, g->cols)
      .Tensor("b", g->b, g->rows, g->cols)
      .Tensor("sum", g->sum, g->rows, g->cols)
      .Tensor("y", g->y, g->rows, g->cols)
      .Tensor("rstd", g->rstd, g->rows);
  check.Tensor("weight", g->weight, g->cols);
  if (g->rms == 0) {
    check.Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->add_norm_forward(*g);
  }
  return check.status();
}

// The residual's gradient is optional; if present, it is added to dx.
FtStatus NormBackwardInput(FtQueue* queue, const FtNormBackwardInput* g) {
  Check check(queue, "norm_backward_input", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("x", g->x, g->rows, g->cols)
      .Tensor("dx", g->dx, g->rows, g->cols);
  check.Tensor("weight", g->weight, g->cols).Tensor("rstd", g->rstd, g->rows);
  if (g->rms == 0) {
    check.Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->norm_backward_input(*g);
  }
  return check.status();
}

// bias_grad may be null, because many models have norms without a bias.
FtStatus NormBackwardWeight(FtQueue* queue, const FtNormBackwardWeight* g) {
  Check check(queue, "norm_backward_weight", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("x", g->x, g->rows, g->cols)
      .Tensor("rstd", g->rstd, g->rows);
  check.Tensor("weight_grad", g->weight_grad, g->cols);
  if (g->rms == 0) {
    check.Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->norm_backward_weight(*g);
  }
  return check.status();
}

}  // namespace

void SetNormEntries(FtDeviceApi& api) {
  api.norm_forward = &NormForward;
  api.add_norm_forward = &AddNormForward;
  api.norm_backward_input = &NormBackwardInput;
  api.norm_backward_weight = &NormBackwardWeight;
}

}  // namespace foretrain

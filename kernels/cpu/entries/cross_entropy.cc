#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

FtStatus CrossEntropyForward(FtQueue* queue, const FtCrossEntropyForward* g) {
  Check check(queue, "cross_entropy_forward", g->dtype);
  check.Size("rows", g->rows)
      .AtLeast("vocab", g->vocab, 1)
      .Tensor("logits", g->logits, g->rows, g->vocab);
  check.Tensor("targets", g->targets, g->rows)
      .Tensor("lse", g->lse, g->rows)
      .Tensor("loss", g->loss, 1);
  if (check.ok()) {
    queue->kernels->cross_entropy_forward(*g);
  }
  return check.status();
}

FtStatus CrossEntropyBackward(FtQueue* queue, const FtCrossEntropyBackward* g) {
  Check check(queue, "cross_entropy_backward", g->dtype);
  check.Size("rows", g->rows)
      .AtLeast("vocab", g->vocab, 1)
      .Tensor("logits", g->logits, g->rows, g->vocab);
  check.Tensor("targets", g->targets, g->rows).Tensor("lse", g->lse, g->rows);
  if (check.ok()) {
    queue->kernels->cross_entropy_backward(*g);
  }
  return check.status();
}

}  // namespace

void SetCrossEntropyEntries(FtDeviceApi& api) {
  api.cross_entropy_forward = &CrossEntropyForward;
  api.cross_entropy_backward = &CrossEntropyBackward;
}

}  // namespace foretrain

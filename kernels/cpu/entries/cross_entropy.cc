#include <cmath>
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
  check.Size("first_id", g->first_id).Size("all_ids", g->all_ids);
  check.Tensor("targets", g->targets, g->rows).Tensor("lse", g->lse, g->rows);
  if (check.ok()) {
    FtCrossEntropyBackward now = *g;
    if (g->loss_scale != nullptr) {
      now.scale = std::ldexp(g->scale, static_cast<int>(g->loss_scale[0]));
    }
    queue->kernels->cross_entropy_backward(now);
  }
  return check.status();
}

// Sizes that the three share.
template <class Arguments>
void CheckShare(Check& check, const Arguments& g) {
  check.Size("rows", g.rows).AtLeast("vocab", g.vocab, 1).AtLeast("all_ids", g.all_ids, 1);
  check.Size("first_id", g.first_id).Tensor("logits", g.logits, g.rows, g.vocab);
  check.Tensor("max", g.max, g.rows);
}

FtStatus VocabMax(FtQueue* queue, const FtVocabMax* g) {
  Check check(queue, "vocab_max", g->dtype);
  CheckShare(check, *g);
  if (check.ok()) {
    queue->kernels->vocab_max(*g);
  }
  return check.status();
}

FtStatus VocabSums(FtQueue* queue, const FtVocabSums* g) {
  Check check(queue, "vocab_sums", g->dtype);
  CheckShare(check, *g);
  check.Tensor("targets", g->targets, g->rows)
      .Tensor("sum", g->sum, g->rows)
      .Tensor("picked", g->picked, g->rows);
  if (check.ok()) {
    queue->kernels->vocab_sums(*g);
  }
  return check.status();
}

FtStatus VocabLoss(FtQueue* queue, const FtVocabLoss* g) {
  Check check(queue, "vocab_loss", g->dtype);
  check.Size("rows", g->rows).AtLeast("all_ids", g->all_ids, 1);
  check.Tensor("targets", g->targets, g->rows)
      .Tensor("max", g->max, g->rows)
      .Tensor("sum", g->sum, g->rows)
      .Tensor("picked", g->picked, g->rows)
      .Tensor("lse", g->lse, g->rows)
      .Tensor("loss", g->loss, 1);
  if (check.ok()) {
    queue->kernels->vocab_loss(*g);
  }
  return check.status();
}

FtStatus ShiftTargets(FtQueue* queue, const FtShiftTargets* g) {
  Check check(queue, "shift_targets", FT_F32);
  check.Size("rows", g->rows).AtLeast("sequence", g->sequence, 1);
  check.Tensor("targets", g->targets, g->rows).Tensor("out", g->out, g->rows);
  if (!check.ok()) {
    return check.status();
  }
  for (std::int64_t row = 0; row < g->rows; ++row) {
    g->out[row] = (row + 1) % g->sequence == 0 ? -1 : g->targets[row + 1];
  }
  return FT_OK;
}

}  // namespace

void SetCrossEntropyEntries(FtDeviceApi& api) {
  api.cross_entropy_forward = &CrossEntropyForward;
  api.cross_entropy_backward = &CrossEntropyBackward;
  api.vocab_max = &VocabMax;
  api.vocab_sums = &VocabSums;
  api.vocab_loss = &VocabLoss;
  api.shift_targets = &ShiftTargets;
}

}  // namespace foretrain

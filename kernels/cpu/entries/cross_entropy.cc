// CPU entries of cross-entropy, with a whole vocabulary or one that is split over ranks.
#include <cmath>
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/wide_copies.h"

namespace foretrain {
namespace {

// Targets are not checked against the vocabulary: the kernel counts rows with a target outside it
// as 0.
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

// The dynamic loss scale is applied here, so that the kernel sees one plain factor.
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

// Checks that the three vocabulary-parallel kernels share.
template <class Arguments>
void CheckShare(Check& check, const Arguments& g) {
  check.Size("rows", g.rows).AtLeast("vocab", g.vocab, 1).AtLeast("all_ids", g.all_ids, 1);
  check.Size("first_id", g.first_id).Tensor("logits", g.logits, g.rows, g.vocab);
  check.Tensor("max", g.max, g.rows);
}

// A vocabulary split over ranks needs three entries with exchanges between them: the maximum of a
// row, the sum of exponentials relative to it, and the loss.
FtStatus VocabMax(FtQueue* queue, const FtVocabMax* g) {
  Check check(queue, "vocab_max", g->dtype);
  CheckShare(check, *g);
  if (check.ok()) {
    queue->kernels->vocab_max(*g);
  }
  return check.status();
}

// `picked` is the target's logit, or 0 on ranks whose share does not contain the target.
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

// Every rank computes the same loss from the reduced numbers.
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

FtStatus ZLoss(FtQueue* queue, const FtZLoss* g) {
  Check check(queue, "z_loss", FT_F32);
  check.Size("rows", g->rows).Size("ids", g->ids).Tensor("targets", g->targets, g->rows);
  check.Tensor("lse", g->lse, g->rows).Tensor("loss", g->loss, 1);
  if (!check.ok()) {
    return check.status();
  }
  double sum = 0.0;
  for (std::int64_t row = 0; row < g->rows; ++row) {
    const bool counts = g->targets[row] >= 0 && g->targets[row] < g->ids;
    const double lse = counts ? static_cast<double>(g->lse[row]) : 0.0;
    sum += lse * lse;
  }
  const double factor = static_cast<double>(g->scale) * static_cast<double>(g->weight);
  g->loss[0] = static_cast<float>(static_cast<double>(g->loss[0]) + factor * sum);
  return FT_OK;
}

// A gradient d = scale * (softmax - onehot) gains 2 weight lse * scale * softmax, that is 2 weight
// lse * (d + scale * onehot). A row that does not count has d = 0 and keeps it.
FtStatus ZLossBackward(FtQueue* queue, const FtZLossBackward* g) {
  Check check(queue, "z_loss_backward", IsShort(g->dtype) ? FT_F32 : g->dtype);
  check.Size("rows", g->rows).AtLeast("vocab", g->vocab, 1).Size("first_id", g->first_id);
  check.Size("all_ids", g->all_ids).Tensor("d_logits", g->d_logits, g->rows, g->vocab);
  check.Tensor("targets", g->targets, g->rows).Tensor("lse", g->lse, g->rows);
  if (!check.ok()) {
    return check.status();
  }
  WideCopies copies(queue);
  const Extent extent = Extent::Dense(g->rows, g->vocab);
  auto* const gradients =
      static_cast<float*>(copies.Out(g->d_logits, g->dtype, extent, /*reads=*/true));
  if (copies.status() != FT_OK) {
    return copies.status();
  }
  const float scale = g->loss_scale == nullptr
                          ? g->scale
                          : std::ldexp(g->scale, static_cast<int>(g->loss_scale[0]));
  const std::int64_t ids = g->all_ids == 0 ? g->vocab : g->all_ids;
  for (std::int64_t row = 0; row < g->rows; ++row) {
    const std::int64_t target = g->targets[row];
    if (target < 0 || target >= ids) {
      continue;
    }
    float* const d = gradients + row * g->vocab;
    const float slope = 2.0F * g->weight * g->lse[row];
    const std::int64_t column = target - g->first_id;
    const bool here = column >= 0 && column < g->vocab;
    const float at_target = here ? d[column] + slope * (d[column] + scale) : 0.0F;
    for (std::int64_t c = 0; c < g->vocab; ++c) {
      d[c] += slope * d[c];
    }
    if (here) {
      d[column] = at_target;
    }
  }
  copies.Store();
  return FT_OK;
}

// The last token of a sequence has no next one; -1 is a target that adds nothing to the loss.
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
  api.z_loss = &ZLoss;
  api.z_loss_backward = &ZLossBackward;
}

}  // namespace foretrain

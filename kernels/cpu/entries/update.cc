#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

FtStatus SquaredNorm(FtQueue* queue, const FtSquaredNorm* g) {
  Check check(queue, "squared_norm", g->dtype);
  check.Size("elements", g->elements).Tensor("x", g->x, g->elements).Tensor("out", g->out, 1);
  if (check.ok()) {
    queue->kernels->squared_norm(*g);
  }
  return check.status();
}

// Decay and elements of an update, and the tensors that every one has.
template <class Update>
void CheckUpdate(const Update& g, Check& check) {
  check.Size("elements", g.elements).Size("decayed", g.decayed);
  check.Tensor("param", g.param, g.elements).Tensor("grad", g.grad, g.elements);
}

FtStatus AdamW(FtQueue* queue, const FtAdamW* g) {
  Check check(queue, "adamw", g->dtype);
  CheckUpdate(*g, check);
  check.AtLeast("step", g->step, 1);
  check.Tensor("moment1", g->moment1, g->elements).Tensor("moment2", g->moment2, g->elements);
  if (g->moments == FT_I8) {
    check.Tensor("absmax1", g->absmax1, g->elements).Tensor("absmax2", g->absmax2, g->elements);
  } else if (g->moments != FT_F32 && g->moments != FT_BF16) {
    check.Refuse(FT_UNSUPPORTED, "moments of dtype %d: only f32, bf16 and i8", g->moments);
  }
  if (check.ok()) {
    queue->kernels->adamw(*g);
  }
  return check.status();
}

FtStatus Sgd(FtQueue* queue, const FtSgd* g) {
  Check check(queue, "sgd", g->dtype);
  CheckUpdate(*g, check);
  if (check.ok()) {
    queue->kernels->sgd(*g);
  }
  return check.status();
}

FtStatus AdamWAmend(FtQueue* queue, const FtAdamWAmend* g) {
  const FtAdamW& update = g->update;
  Check check(queue, "adamw_amend", update.dtype);
  CheckUpdate(update, check);
  check.AtLeast("step", update.step, 1);
  check.Tensor("moment1", update.moment1, update.elements)
      .Tensor("moment2", update.moment2, update.elements);
  if (update.moments != FT_F32) {
    check.Refuse(FT_UNSUPPORTED, "moments of dtype %d: only f32", update.moments);
  }
  if (check.ok()) {
    queue->kernels->adamw_amend(*g);
  }
  return check.status();
}

FtStatus SgdAmend(FtQueue* queue, const FtSgdAmend* g) {
  Check check(queue, "sgd_amend", g->update.dtype);
  CheckUpdate(g->update, check);
  if (check.ok()) {
    queue->kernels->sgd_amend(*g);
  }
  return check.status();
}

FtStatus CountNotFinite(FtQueue* queue, const FtCountNotFinite* g) {
  Check check(queue, "count_not_finite", g->dtype);
  check.Size("elements", g->elements).Tensor("x", g->x, g->elements).Tensor("out", g->out, 1);
  if (check.ok()) {
    queue->kernels->count_not_finite(*g);
  }
  return check.status();
}

FtStatus CountSkipped(FtQueue* queue, const FtCountSkipped* g) {
  Check check(queue, "count_skipped", FT_F32);
  check.Tensor("not_finite", g->not_finite, 1).Tensor("skipped", g->skipped, 1);
  if (check.ok()) {
    queue->kernels->count_skipped(*g);
  }
  return check.status();
}

void CheckQuantize(const FtQuantize& g, Check& check) {
  check.Size("elements", g.elements).AtLeast("pieces", g.pieces, 1);
  check.Tensor("x", g.x, g.elements).Tensor("out", g.out, g.elements);
  if (g.format != FT_BF16 && g.format != FT_FP8 && g.format != FT_I8) {
    check.Refuse(FT_UNSUPPORTED, "format %d: only bf16, fp8 and i8", g.format);
  } else if (check.ok() && g.elements % (4 * g.pieces) != 0) {
    check.Refuse(FT_FAILED, "%lld elements in %lld pieces: each must be a multiple of 4",
                 static_cast<long long>(g.elements), static_cast<long long>(g.pieces));
  }
}

FtStatus Quantize(FtQueue* queue, const FtQuantize* g) {
  Check check(queue, "quantize", g->dtype);
  CheckQuantize(*g, check);
  if (check.ok()) {
    queue->kernels->quantize(*g);
  }
  return check.status();
}

FtStatus Dequantize(FtQueue* queue, const FtQuantize* g) {
  Check check(queue, "dequantize", g->dtype);
  CheckQuantize(*g, check);
  if (check.ok()) {
    queue->kernels->dequantize(*g);
  }
  return check.status();
}

FtStatus SumRanks(FtQueue* queue, const FtSumRanks* g) {
  Check check(queue, "sum_ranks", g->dtype);
  check.Size("elements", g->elements)
      .AtLeast("count", g->count, 1)
      .Tensor("out", g->out, g->elements);
  check.Tensor("sources", g->sources, g->elements);
  for (std::int32_t rank = 0; check.ok() && g->elements > 0 && rank < g->count; ++rank) {
    check.Tensor("a source", g->sources[rank], g->elements);
  }
  if (check.ok() && g->elements > 0) {
    queue->kernels->sum_ranks(*g);
  }
  return check.status();
}

}  // namespace

void SetUpdateEntries(FtDeviceApi& api) {
  api.squared_norm = &SquaredNorm;
  api.adamw = &AdamW;
  api.sgd = &Sgd;
  api.adamw_amend = &AdamWAmend;
  api.sgd_amend = &SgdAmend;
  api.count_not_finite = &CountNotFinite;
  api.count_skipped = &CountSkipped;
  api.quantize = &Quantize;
  api.dequantize = &Dequantize;
  api.sum_ranks = &SumRanks;
}

}  // namespace foretrain

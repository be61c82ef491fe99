// CPU entries of optimizer updates and of what decides them: gradient norm, non-finite gradients,
// loss scale. Also (de)quantization and the sum over ranks.
#include <cmath>
#include <cstdint>

#include "base/numeric/nf4.h"
#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Sum of squares of one bucket; with accumulate it is added to that of earlier buckets.
FtStatus SquaredNorm(FtQueue* queue, const FtSquaredNorm* g) {
  Check check(queue, "squared_norm", g->dtype);
  check.Size("elements", g->elements).Tensor("x", g->x, g->elements).Tensor("out", g->out, 1);
  if (check.ok()) {
    queue->kernels->squared_norm(*g);
  }
  return check.status();
}

// Checks that every update shares.
template <class Update>
void CheckUpdate(const Update& g, Check& check) {
  check.Size("elements", g.elements).Size("decayed", g.decayed);
  check.Tensor("param", g.param, g.elements).Tensor("grad", g.grad, g.elements);
}

// The update with the current dynamic loss scale.
template <class Update>
Update Scaled(const Update& g) {
  Update now = g;
  const float initial = g.loss_scale == 0.0F ? 1.0F : g.loss_scale;
  if (g.loss_scale_state != nullptr) {
    now.loss_scale = std::ldexp(initial, static_cast<int>(g.loss_scale_state[0]));
  }
  return now;
}

// Block-wise 8-bit moments also need their block maxima.
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
    queue->kernels->adamw(Scaled(*g));
  }
  return check.status();
}

// Plain SGD with weight decay and no moments.
FtStatus Sgd(FtQueue* queue, const FtSgd* g) {
  Check check(queue, "sgd", g->dtype);
  CheckUpdate(*g, check);
  if (check.ok()) {
    queue->kernels->sgd(Scaled(*g));
  }
  return check.status();
}

// Amending needs exact fp32 moments: quantized ones would round the correction off.
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

// Without moments the correction is the difference of both updates of the parameter.
FtStatus SgdAmend(FtQueue* queue, const FtSgdAmend* g) {
  Check check(queue, "sgd_amend", g->update.dtype);
  CheckUpdate(g->update, check);
  if (check.ok()) {
    queue->kernels->sgd_amend(*g);
  }
  return check.status();
}

// found_inf of mixed-precision training, as a count that can be summed over ranks.
FtStatus CountNotFinite(FtQueue* queue, const FtCountNotFinite* g) {
  Check check(queue, "count_not_finite", g->dtype);
  check.Size("elements", g->elements).Tensor("x", g->x, g->elements).Tensor("out", g->out, 1);
  if (check.ok()) {
    queue->kernels->count_not_finite(*g);
  }
  return check.status();
}

// Counts skipped steps, which AdamW's bias correction must not count as updates.
FtStatus CountSkipped(FtQueue* queue, const FtCountSkipped* g) {
  Check check(queue, "count_skipped", FT_F32);
  check.Tensor("not_finite", g->not_finite, 1).Tensor("skipped", g->skipped, 1);
  if (check.ok()) {
    queue->kernels->count_skipped(*g);
  }
  return check.status();
}

// Dynamic loss scaling as in FtScaleLoss. The scale never drops below 1.
FtStatus ScaleLoss(FtQueue* queue, const FtScaleLoss* g) {
  Check check(queue, "scale_loss", FT_F32);
  check.Tensor("not_finite", g->not_finite, 1)
      .Tensor("doublings", g->doublings, 1)
      .Tensor("since", g->since, 1);
  check.AtLeast("window", g->window, 1);
  if (!check.ok()) return check.status();
  float& doublings = g->doublings[0];
  float& since = g->since[0];
  if (g->not_finite[0] != 0.0F) {
    const float half = std::ldexp(g->initial, static_cast<int>(doublings) - 1);
    if (half >= 1.0F) doublings -= 1.0F;
    since = 0.0F;
    return FT_OK;
  }
  since += 1.0F;
  if (since < static_cast<float>(g->window)) return FT_OK;
  doublings += 1.0F;
  since = 0.0F;
  return FT_OK;
}

// Pieces must be multiples of 4 elements, so that the fp32 scales after the codes are aligned.
void CheckQuantize(const FtQuantize& g, Check& check) {
  check.Size("elements", g.elements).AtLeast("pieces", g.pieces, 1);
  check.Tensor("x", g.x, g.elements).Tensor("out", g.out, g.elements);
  if (g.format == FT_NF4) {
    if (g.pieces != 1) {
      check.Refuse(FT_UNSUPPORTED, "nf4 in %lld pieces: only 1", static_cast<long long>(g.pieces));
    }
    return;
  }
  if (g.format != FT_BF16 && g.format != FT_FP8 && g.format != FT_I8) {
    check.Refuse(FT_UNSUPPORTED, "format %d: only bf16, fp8, i8 and nf4", g.format);
  } else if (check.ok() && g.elements % (4 * g.pieces) != 0) {
    check.Refuse(FT_FAILED, "%lld elements in %lld pieces: each must be a multiple of 4",
                 static_cast<long long>(g.elements), static_cast<long long>(g.pieces));
  }
}

// NF4 has its own layout (base/numeric/nf4.h) and always one piece. Other formats store codes and
// scales piece by piece.
FtStatus Quantize(FtQueue* queue, const FtQuantize* g) {
  Check check(queue, "quantize", g->dtype);
  CheckQuantize(*g, check);
  if (check.ok() && g->format == FT_NF4) {
    QuantizeNf4(static_cast<const float*>(g->x), g->elements, static_cast<std::uint8_t*>(g->out));
  } else if (check.ok()) {
    queue->kernels->quantize(*g);
  }
  return check.status();
}

// The inverse of Quantize with the same struct: x are the codes, out the fp32 values.
FtStatus Dequantize(FtQueue* queue, const FtQuantize* g) {
  Check check(queue, "dequantize", g->dtype);
  CheckQuantize(*g, check);
  if (check.ok() && g->format == FT_NF4) {
    DequantizeNf4(static_cast<const std::uint8_t*>(g->x), g->elements, static_cast<float*>(g->out));
  } else if (check.ok()) {
    queue->kernels->dequantize(*g);
  }
  return check.status();
}

// The local sum of a collective: adds the ranks' buffers in rank order, so that all ranks get the
// same bits.
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
  api.scale_loss = &ScaleLoss;
  api.quantize = &Quantize;
  api.dequantize = &Dequantize;
  api.sum_ranks = &SumRanks;
}

}  // namespace foretrain

// CPU entries of losses and targets that are more than a vector kernel.
#include <cmath>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// The dynamic loss scale.
float Scaled(float scale, const float* loss_scale) {
  return loss_scale == nullptr ? scale : std::ldexp(scale, static_cast<int>(loss_scale[0]));
}

// The dynamic loss scale is applied here, so that the kernel sees one plain factor.
void CrossEntropyBackward(Check& check, const FtCrossEntropyBackward& g) {
  FtCrossEntropyBackward now = g;
  now.scale = Scaled(g.scale, g.loss_scale);
  check.queue()->kernels->cross_entropy_backward(now);
}

// `terms` keeps the log-sum-exp between the two kernels.
void CrossEntropy(Check& check, const FtCrossEntropy& g) {
  check.queue()->kernels->cross_entropy_forward({.logits = g.logits,
                                                 .targets = g.targets,
                                                 .lse = g.terms,
                                                 .loss = g.loss,
                                                 .rows = g.rows,
                                                 .vocab = g.vocab,
                                                 .scale = g.scale,
                                                 .accumulate = g.accumulate,
                                                 .dtype = g.dtype,
                                                 .all_ids = g.all_ids});
  check.queue()->kernels->cross_entropy_backward({.logits = g.logits,
                                                  .targets = g.targets,
                                                  .lse = g.terms,
                                                  .rows = g.rows,
                                                  .vocab = g.vocab,
                                                  .first_id = 0,
                                                  .all_ids = g.all_ids,
                                                  .scale = Scaled(g.gradient_scale, g.loss_scale),
                                                  .dtype = g.dtype,
                                                  .softcap = g.softcap,
                                                  .loss_scale = nullptr});
}

void ZLoss(const FtZLoss& g) {
  double sum = 0.0;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const bool counts = g.targets[row] >= 0 && g.targets[row] < g.vocabulary;
    const double lse = counts ? static_cast<double>(g.lse[row]) : 0.0;
    sum += lse * lse;
  }
  const double factor = static_cast<double>(g.scale) * static_cast<double>(g.weight);
  g.loss[0] = static_cast<float>(static_cast<double>(g.loss[0]) + factor * sum);
}

// A gradient d = scale * (softmax - onehot) gains 2 weight lse * scale * softmax, that is 2 weight
// lse * (d + scale * onehot). A row that does not count has d = 0 and keeps it.
void ZLossBackward(const FtZLossBackward& g) {
  const float scale = Scaled(g.scale, g.loss_scale);
  const std::int64_t ids = g.all_ids == 0 ? g.vocab : g.all_ids;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const std::int64_t target = g.targets[row];
    if (target < 0 || target >= ids) {
      continue;
    }
    float* const d = static_cast<float*>(g.logits) + row * g.vocab;
    const float slope = 2.0F * g.weight * g.lse[row];
    const std::int64_t column = target - g.first_id;
    const bool here = column >= 0 && column < g.vocab;
    const float at_target = here ? d[column] + slope * (d[column] + scale) : 0.0F;
    for (std::int64_t c = 0; c < g.vocab; ++c) {
      d[c] += slope * d[c];
    }
    if (here) {
      d[column] = at_target;
    }
  }
}

// The last token of a sequence has no next one; -1 is a target that adds nothing to the loss.
void ShiftTargets(const FtShiftTargets& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    g.out[row] = (row + 1) % g.sequence == 0 ? -1 : g.targets[row + 1];
  }
}

}  // namespace

void SetCrossEntropyEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::cross_entropy_backward, &CrossEntropyBackward>(api);
  Set<&FtDeviceApi::cross_entropy, &CrossEntropy>(api);
  Set<&FtDeviceApi::shift_targets, &ShiftTargets>(api);
  Set<&FtDeviceApi::z_loss, &ZLoss>(api);
  Set<&FtDeviceApi::z_loss_backward, &ZLossBackward>(api);
}

}  // namespace foretrain

// Transform of the hidden state before the logits (BERT's masked-LM head): a linear, an activation
// and a norm behind the final norm. It works on each rank's own rows, and its weights are whole on
// every rank, as those of norms are: one product of hidden x hidden is small beside the logits.
#include "sim/program/blocks/ends/head_ops.h"

namespace foretrain {

void Head::MakeTransform() {
  if (!context.model.head_transform) return;
  const std::int64_t all = own_rows * hidden;
  plain = {.suffix = ".plain",
           .x = next.x,
           .norm = Saved("plain.norm", all, kPlainNorm),
           .mean = SavedExact("plain.mean", rms ? 0 : own_rows, kPlainMean),
           .rstd = SavedExact("plain.rstd", own_rows, kPlainRstd)};
  transform_in = Saved("transform.in", all, kTransformIn);
  next.x = Saved("transform.out", all, kTransformOut);
  next.norm_weight = kTransformNormWeight;
  next.norm_bias = kTransformNormBias;
}

void Head::TransformForward() {
  if (!context.model.head_transform) return;
  NormForward(plain);
  const std::int16_t weight = Parameter("transform.weight", kTransformWeight, SlotRole::kParameter);
  const std::int16_t bias = Parameter("transform.bias", kTransformBias, SlotRole::kParameter);
  b.Linear("head.transform", plain.norm, weight, bias, transform_in, own_rows, hidden, hidden);
  Op& op = b.Add(OpKind::kGeluForward, "head.transform.gelu", {In(transform_in), Out(next.x)});
  op.activation = ActivationOf(context.model.mlp);
  op.shape = {.rows = own_rows, .cols = hidden};
}

void Head::EndBackward(std::int16_t d_norm, std::int16_t through, bool accumulate) {
  if (!context.model.head_transform) {
    NormBackward(next, d_norm, through, InputGradient(), accumulate);
    return;
  }
  const std::int64_t all = own_rows * hidden;
  const std::int16_t d_out = b.Temporary("d_transform.out", all);
  const std::int16_t d_in = b.Temporary("d_transform.in", all);
  const std::int16_t d_plain = b.Temporary("d_plain.norm", all);
  NormBackward(next, d_norm, through, d_out, accumulate);
  b.Half(Pass::kBackwardInput);
  Op& op = b.Add(OpKind::kGeluBackward, "head.transform.gelu.grad",
                 {In(transform_in), In(d_out), Out(d_in)});
  op.activation = ActivationOf(context.model.mlp);
  op.shape = {.rows = own_rows, .cols = hidden};
  b.LinearInputGradient("head.transform.input_grad", d_in,
                        Parameter("transform.weight", kTransformWeight, SlotRole::kParameter),
                        d_plain, own_rows, hidden, hidden);
  NormBackward(plain, d_plain, kNoSlot, InputGradient(), accumulate);
  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient("head.transform", d_in, plain.norm,
                         Parameter("d_transform.weight", kTransformWeight, SlotRole::kGradient),
                         Parameter("d_transform.bias", kTransformBias, SlotRole::kGradient),
                         own_rows, hidden, hidden, accumulate);
}

}  // namespace foretrain

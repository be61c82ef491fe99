// Attention sinks of gpt-oss: a learned score for each head that joins the softmax with a value of
// 0. Given attention's output and log-sum-exp, a sink only rescales them. So it is one more op
// after any kind of attention, and attention's own backward stays valid with the rescaled tensors.
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {

OpShape Layer::SinkShape() const {
  return {.rows = rows,
          .heads = static_cast<std::int32_t>(context.model.heads / tp),
          .head_dim = static_cast<std::int32_t>(context.model.ValueDim())};
}

void Layer::Sinks() {
  if (!context.model.attention_sinks) return;
  b.Add(OpKind::kSinkForward, "attention.sinks",
        {InOut(attention), InOut(lse), In(Parameter("sinks", kSinks))})
      .shape = SinkShape();
}

void Layer::SinkGradient(std::int16_t d_attention, bool accumulate) {
  const std::int16_t grad = Gradient("d_sinks", kSinks);
  if (grad == kNoSlot) return;
  const OpShape shape = SinkShape();
  // Gathered parameters exist only in the input half, so the weight half reads a copy: the sum of
  // one row.
  const std::int16_t kept = b.Temporary("sinks.kept", shape.heads);
  b.Half(Pass::kBackwardInput);
  b.Add(OpKind::kBiasGrad, "attention.sinks.keep", {In(Parameter("sinks", kSinks)), Out(kept)})
      .shape = {.rows = 1, .cols = shape.heads};
  b.Half(Pass::kBackwardWeight);
  Op& op = b.Add(
      OpKind::kSinkBackward, "attention.sinks.grad",
      {In(attention), In(d_attention), In(lse), In(kept), accumulate ? InOut(grad) : Out(grad)});
  op.accumulate = accumulate;
  op.shape = shape;
}

}  // namespace foretrain

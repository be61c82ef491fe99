// Sinks of gpt-oss: a learned score a head joins the softmax with a value of 0. As attention's
// output and the logarithm of its sum are there, what the sink takes from them is one more op
// behind any kind of attention, and attention's own backward holds with what that leaves.
#include "sim/program/blocks/layer_ops.h"

namespace foretrain {

OpShape Layer::SinkShape() const {
  return {.rows = rows,
          .heads = static_cast<std::int32_t>(context.model.heads / tp),
          .head_dim = static_cast<std::int32_t>(context.model.ValueDim())};
}

void Layer::Sinks() {
  if (!context.model.attention_sinks) return;
  b.Add(OpKind::kSinkForward, OpClass::kMemoryBound, "attention.sinks",
        {InOut(attention), InOut(lse), In(Parameter("sinks", kSinks))})
      .shape = SinkShape();
}

void Layer::SinkGradient(std::int16_t d_attention, bool accumulate) {
  const std::int16_t grad = Gradient("d_sinks", kSinks);
  if (grad == kNoSlot) return;
  const OpShape shape = SinkShape();
  // Gathered parameters are there for the input half alone: the sum of one row is a copy.
  const std::int16_t kept = b.Temporary("sinks.kept", shape.heads);
  b.Half(Pass::kBackwardInput);
  b.Add(OpKind::kBiasGrad, OpClass::kMemoryBound, "attention.sinks.keep",
        {In(Parameter("sinks", kSinks)), Out(kept)})
      .shape = {.rows = 1, .cols = shape.heads};
  b.Half(Pass::kBackwardWeight);
  Op& op = b.Add(
      OpKind::kSinkBackward, OpClass::kMemoryBound, "attention.sinks.grad",
      {In(attention), In(d_attention), In(lse), In(kept), accumulate ? InOut(grad) : Out(grad)});
  op.accumulate = accumulate;
  op.shape = shape;
}

}  // namespace foretrain

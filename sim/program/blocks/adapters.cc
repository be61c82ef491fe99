// Low-rank adapters (LoRA, Hu et al. 2022) of a layer's linears: two thin GEMMs each way. A rank's
// part of a tensor-parallel sum passes through them as through the weight, so they add no
// collective to the layer. In a column-parallel linear d_inner is partial, and with it the gradient
// of A. In a row-parallel linear inner is partial, and with it the gradient of B. Those gradients
// are all-reduced over tp once a step (BlockParameter::own_rows).
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

constexpr const char* kNames[kAdaptedLinearCount] = {"qkv", "out", "up", "down"};

}  // namespace

Layer::AdapterSizes Layer::SizesOf(AdaptedLinear linear) const {
  switch (linear) {
    case kQkvLinear:
      return {hidden, qkv_width};
    case kOutLinear:
      return {attention_width, hidden};
    case kUpLinear:
      return {hidden, up_width};
    default:
      return {ffn_width, hidden};
  }
}

// Slots are made on first use, so that a block without a given adapter has no unused slots.
Layer::AdapterParameters Layer::ParametersOfAdapter(AdaptedLinear linear) {
  AdapterParameters& known = adapters_[linear];
  if (known.a == kNoSlot) {
    const std::string name = std::string(kNames[linear]) + ".lora_";
    known.a = Parameter((name + "A").c_str(), AdapterA(linear));
    known.b = Parameter((name + "B").c_str(), AdapterB(linear));
  }
  return known;
}

// inner = alpha / r * x A^T. The scale is applied here, on r columns, not on the wide output.
void Layer::AdapterInner(AdaptedLinear linear, const std::string& name, std::int16_t in,
                         std::int16_t inner_out, std::int64_t count) {
  if (lora_rank == 0) return;
  const std::int64_t width = SizesOf(linear).in;
  const ProductOperand of_in =
      b.ForProduct({name + ".lora_A.input", width}, in, OperandRole::kInput);
  const ProductOperand of_a =
      b.WeightForProduct(name + ".lora_A.weight", ParametersOfAdapter(linear).a, lora_rank, width);
  Op& op = b.Gemm(name + ".lora_A", of_in, of_a, kNoSlot, Out(inner_out));
  op.trans_b = true;
  op.Set(Attribute::kFactor, LoraScale(context.plan));
  op.shape = {.rows = count, .cols = lora_rank, .inner = width};
}

// y += inner B^T, directly onto the base linear's output.
void Layer::AdapterForward(AdaptedLinear linear, const std::string& name, std::int16_t in,
                           std::int16_t inner_out, std::int16_t y, std::int64_t count) {
  if (lora_rank == 0) return;
  AdapterInner(linear, name, in, inner_out, count);
  const std::int64_t width = SizesOf(linear).out;
  const ProductOperand of_inner =
      b.ForProduct({name + ".lora_B.input", lora_rank}, inner_out, OperandRole::kInput);
  const ProductOperand of_b =
      b.WeightForProduct(name + ".lora_B.weight", ParametersOfAdapter(linear).b, width, lora_rank);
  Op& op = b.Gemm(name + ".lora_B", of_inner, of_b, kNoSlot, InOut(y));
  op.trans_b = true;
  op.accumulate = true;
  op.shape = {.rows = count, .cols = width, .inner = lora_rank};
}

// d_inner = alpha / r * dy B, then dx += d_inner A. d_inner is also read by the gradient of A.
void Layer::AdapterInputGradient(AdaptedLinear linear, const std::string& name, std::int16_t dy,
                                 std::int16_t d_inner, std::int16_t dx, std::int64_t count) {
  if (lora_rank == 0) return;
  const AdapterParameters of = ParametersOfAdapter(linear);
  const AdapterSizes size = SizesOf(linear);
  const ProductOperand of_dy =
      b.ForProduct({name + ".lora_B.output_grad", size.out}, dy, OperandRole::kOutputGradient);
  const ProductOperand of_b =
      b.WeightForProduct(name + ".lora_B.weight", of.b, size.out, lora_rank);
  Op& through_b = b.Gemm(name + ".lora_B", of_dy, of_b, kNoSlot, Out(d_inner));
  through_b.Set(Attribute::kFactor, LoraScale(context.plan));
  through_b.shape = {.rows = count, .cols = lora_rank, .inner = size.out};
  const ProductOperand of_inner = b.ForProduct({name + ".lora_A.output_grad", lora_rank}, d_inner,
                                               OperandRole::kOutputGradient);
  const ProductOperand of_a = b.WeightForProduct(name + ".lora_A.weight", of.a, lora_rank, size.in);
  Op& through_a = b.Gemm(name + ".lora_A", of_inner, of_a, kNoSlot, InOut(dx));
  through_a.accumulate = true;
  through_a.shape = {.rows = count, .cols = size.in, .inner = lora_rank};
}

// dB = dy^T inner and dA = d_inner^T x; both inner tensors already contain alpha / r.
void Layer::AdapterWeightGradient(AdaptedLinear linear, const std::string& name,
                                  const AdapterTensors& of, std::int64_t count, bool accumulate) {
  if (lora_rank == 0) return;
  const AdapterSizes size = SizesOf(linear);
  const std::string d_name = std::string("d_") + kNames[linear] + ".lora_";
  b.LinearWeightGradient(name + ".lora_B", of.dy, of.inner,
                         Gradient((d_name + "B").c_str(), AdapterB(linear)), kNoSlot, count,
                         size.out, lora_rank, accumulate);
  b.LinearWeightGradient(name + ".lora_A", of.d_inner, of.x,
                         Gradient((d_name + "A").c_str(), AdapterA(linear)), kNoSlot, count,
                         lora_rank, size.in, accumulate);
}

std::int16_t Layer::InnerGradient(AdaptedLinear linear, std::int64_t count) {
  return b.Temporary(std::string("d_") + kNames[linear] + ".inner", count * lora_rank);
}

}  // namespace foretrain

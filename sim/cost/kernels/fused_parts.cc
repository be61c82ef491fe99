#include "sim/cost/kernels/fused_parts.h"

#include "base/result.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

Op ProductOf(const Op& op) {
  Op product = op;
  product.kind = OpKind::kGemm;
  SetFormat(product, "a_scales", NumberFormat::kFp32);  // the fused op has another operand there
  return product;
}

// The op after the product, without the product's own fields.
Op Behind(const Op& op, OpKind kind) {
  Op then = op;
  then.kind = kind;
  then.op_class = OpClass::kMemoryBound;
  then.trans_a = then.trans_b = false;
  then.format = NumberFormat::kFp32;
  then.attributes = kUnsetAttributes;
  then.formats = {};
  then.shape = {.rows = op.shape.rows, .cols = op.shape.cols};
  return then;
}

}  // namespace

// Formats carry over: the second op reads the product's result in the format that it was stored in.
FusedParts PartsOf(const Op& op) {
  FT_CHECK(IsFused(op.kind));
  const NumberFormat result = FormatOf(op, "c");
  if (op.kind == OpKind::kGemmBiasGrad) {
    Op sums = Behind(op, OpKind::kBiasGrad);
    sums.shape = {.rows = op.shape.inner, .cols = op.shape.rows};
    SetFormat(sums, "dy", FormatOf(op, "a"));
    SetFormat(sums, "grad", FormatOf(op, "grad"));
    return {ProductOf(op), sums};
  }
  const bool backward = op.kind == OpKind::kGemmActivationBackward;
  Op then = Behind(op, backward ? OpKind::kGeluBackward : OpKind::kGeluForward);
  SetFormat(then, "x", result);
  if (backward) {
    SetFormat(then, "dy", result);
    SetFormat(then, "dx", result);
  } else {
    SetFormat(then, "y", result);
  }
  return {ProductOf(op), then};
}

bool IsOneKernel(const Op& op) {
  if (op.kind == OpKind::kGemmBiasGrad) return !op.accumulate;
  return op.activation == ActivationKind::kGeluTanh;
}

}  // namespace foretrain

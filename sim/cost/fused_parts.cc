#include "sim/cost/fused_parts.h"

#include <cstddef>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr std::size_t kResult = 3, kBeside = 4;  // operands

Op ProductOf(const Op& op) {
  Op product = op;
  product.kind = OpKind::kGemm;
  product.formats[kBeside] = NumberFormat::kFp32;
  return product;
}

Op Behind(const Op& op, OpKind kind) {
  Op then = op;
  then.kind = kind;
  then.op_class = OpClass::kMemoryBound;
  then.trans_a = then.trans_b = false;
  then.format = NumberFormat::kFp32;
  then.formats = {};
  then.shape = {.rows = op.shape.rows, .cols = op.shape.cols};
  return then;
}

}  // namespace

FusedParts PartsOf(const Op& op) {
  FT_CHECK(IsFused(op.kind));
  const NumberFormat result = op.formats[kResult];
  if (op.kind == OpKind::kGemmBiasGrad) {
    Op sums = Behind(op, OpKind::kBiasGrad);
    sums.shape = {.rows = op.shape.inner, .cols = op.shape.rows};
    sums.formats[0] = op.formats[0];
    sums.formats[1] = op.formats[kBeside];
    return {ProductOf(op), sums};
  }
  const bool backward = op.kind == OpKind::kGemmActivationBackward;
  Op then = Behind(op, backward ? OpKind::kGeluBackward : OpKind::kGeluForward);
  for (std::size_t i = 0; i < (backward ? 3 : 2); ++i) then.formats[i] = result;
  return {ProductOf(op), then};
}

bool IsOneKernel(const Op& op) {
  if (op.kind == OpKind::kGemmBiasGrad) return !op.accumulate;
  return op.activation == ActivationKind::kGeluTanh;
}

}  // namespace foretrain

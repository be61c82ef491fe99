// Splits a fused product back into its two ops, for devices on which the fused op was not measured.
#pragma once

#include "sim/program/ir/op.h"

namespace foretrain {

constexpr bool IsFused(OpKind kind) { return IsGemm(kind) && kind != OpKind::kGemm; }

// The GEMM and the op after it that together compute `op`, whose kind must be IsFused. An
// activation that keeps no input works in place, which moves the same bytes.
struct FusedParts {
  Op product, then;
};
FusedParts PartsOf(const Op& op);

// True if an accelerator's library has both in one kernel: tanh GELU, its slope, and sums that
// overwrite (cuBLASLt; docs/cuda.md). Anything else runs as a separate kernel after the product, as
// everything does on a CPU.
bool IsOneKernel(const Op& op);

}  // namespace foretrain

// A product and what follows it in one op, taken apart again: for devices of which no time of the
// two together is known.
#pragma once

#include "sim/program/op.h"

namespace foretrain {

constexpr bool IsFused(OpKind kind) { return IsGemm(kind) && kind != OpKind::kGemm; }

// The GEMM and the op behind it that compute what `op`, of a kind that IsFused, computes. The op
// behind an activation that keeps nothing works in place, which moves as many bytes.
struct FusedParts {
  Op product, then;
};
FusedParts PartsOf(const Op& op);

// Whether an accelerator's library has both in one kernel: GELU in its tanh form and its slope, and
// sums that overwrite (cuBLASLt; docs/cuda.md). What it has not runs as a kernel of its own behind
// the product, as everything does on a CPU.
bool IsOneKernel(const Op& op);

}  // namespace foretrain

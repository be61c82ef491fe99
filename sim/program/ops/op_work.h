// Arithmetic and traffic of one op: what every rate is measured against.
#pragma once

#include "sim/program/ir/op.h"

namespace foretrain {

// `bytes` counts each operand once for a read and once for a write, in its own format (moments
// without their scales), so that a tensor changed in place counts twice. Optional operands do not
// count (a bias, learned positions), except the residual of a norm's backward.
//
// `flop` of a GEMM is 2 rows cols inner, and nothing for what follows it in one op. Causal
// attention counts the lower triangle, T (T + 1) / 2 pairs of a query and a key, or those of its
// window: forward 2 GEMMs, B heads T (T + 1) (head_dim + value_dim), backward 5 (Dao 2023, s. 3.1).
// An attention part counts its own pairs: as many on every rank or, with a window, their mean over
// the ranks. Norms, activations and AdamW count a few an element. Communication: flop 0, bytes =
// the tensor this rank brings (all-gather: the whole that it ends with). kLoadBatch, kHostRead:
// bytes = 4 * elements. kOpaque: 0, its time is given.
struct OpWork {
  double flop = 0;
  double bytes = 0;
};
OpWork WorkOf(const Op& op);

}  // namespace foretrain

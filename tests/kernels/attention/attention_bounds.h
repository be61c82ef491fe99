// Error bounds of fp32 attention against the reference, element by element.
#pragma once

#include "tests/kernels/support.h"

namespace foretrain::test {

// Error bounds of attention's outputs. Each tensor has the shape of the output it bounds.
struct AttentionBounds {
  Tensor out, lse;  // forward
  Tensor q, k, v;   // gradients, from the same out and lse
};

// First-order bounds from the sizes of the terms of each sum. R is Roundings, the units that a sum
// of so many terms costs.
//
//   score       sum over head_dim of q k, minus a number of the size of score and lse:
//               e = R(head_dim + 4) scale sum |q||k| + 4 unit (|score| + |lse|)
//   lse         mean of the scores' errors, and the sum:
//               e_lse = sum p e + R(keys + 8) + 2 unit |lse|
//   p           2^x costs 8 units: relative e + e_lse + 8 unit; e + 8 unit where lse is given
//   out         sum over keys of p v: p (relative + R(keys + 8)) |v|
//   ds          scale p ((relative + 6 unit) |dp - delta|
//               + R(head_dim + 2) (sum |dout||v| + sum |dout||out|))
//   dq, dk, dv  sums over keys, or over queries of all heads of a group
//
// `rounding` describes how weights and gradients of scores are rounded before tensor cores multiply
// them: p |v|, p |dout|, ds |k| and ds |q| each cost one more unit, or a floor for numbers below
// the format's smallest.
struct Rounding {
  double unit = 0.0;   // relative
  double floor = 0.0;  // half the smallest number
};
AttentionBounds BoundAttention(const reference::AttentionShape& shape, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& dout,
                               const Rounding& rounding = {});

}  // namespace foretrain::test

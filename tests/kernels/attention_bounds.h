// How far fp32 attention may be from the reference, number by number.
#pragma once

#include "tests/kernels/support.h"

namespace foretrain::test {

// Bounds of the errors of what attention computes; each tensor has the shape of what it bounds.
struct AttentionBounds {
  Tensor out, lse;  // forward
  Tensor q, k, v;   // gradients, from the same out and lse
};

// First-order bounds from the sizes of the terms of each sum (Roundings has the number of units a
// sum costs):
//   score    sum over head_dim of q k, and the subtraction of numbers of the sizes of score and
//   lse:
//            e = R(head_dim + 4) scale sum |q||k| + 4 unit (|score| + |lse|)
//   lse      a mean of the scores' errors, and the sum:  e_lse = sum p e + R(keys + 8) + 2 unit
//   |lse| p        2^x costs 8 units: relative e + e_lse + 8 unit; e + 8 unit where lse is given
//   out      sum over keys of p v:  p (relative + R(keys + 8)) |v|
//   ds       scale p ((relative + 6 unit) |dp - delta| + R(head_dim + 2) (sum |dout||v| + sum
//   |dout||out|)) dq, dk, dv   sums over keys, or over queries of all heads of a group
//
// `rounding`: how weights and gradients of scores are rounded before they are multiplied, as tensor
// cores need it: p |v|, p |dout|, and ds |k| and ds |q| each cost a unit more, or a floor where the
// number is smaller than the format's least.
struct Rounding {
  double unit = 0.0;   // relative
  double floor = 0.0;  // half the least number
};
AttentionBounds BoundAttention(const reference::AttentionShape& shape, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& dout,
                               const Rounding& rounding = {});

}  // namespace foretrain::test

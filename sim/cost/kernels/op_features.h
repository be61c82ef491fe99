// An op's sizes as a point in a time surface. Leaves out times.
#pragma once

#include "sim/cost/profile/device_profile.h"
#include "sim/cost/profile/interpolate.h"
#include "sim/program/ir/op.h"

namespace foretrain {

struct OpFeatures {
  LogPoint at{};
  LawTerms terms{};
  std::size_t dimensions = 1;
};

// Features of an op. GEMM, also fused: three dimensions, terms {m n k, 1, n k, m k, m n}. Attention
// and its parts: three, {flop, 1, bytes}. Grouped GEMM: two, {flop, 1, bytes}. All else: one,
// {bytes, 1}. Bytes are from WorkOf. A size of 0 gives an infinite logarithm.
OpFeatures FeaturesOf(const Op& op);

// Bits that distinguish tables of one compute kind: accumulation, layout, norm, route of a copy and
// format.
inline constexpr int kAccumulateBit = 1;
int VariantOf(const Op& op);

// The op that `point` measured.
Op OpOf(const ProfilePoint& point);

}  // namespace foretrain

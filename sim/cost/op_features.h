// The sizes of an op as places in a time surface: what its time depends on. Leaves out times.
#pragma once

#include "sim/cost/device_profile.h"
#include "sim/cost/interpolate.h"
#include "sim/program/op.h"

namespace foretrain {

struct OpFeatures {
  LogPoint at{};
  LawTerms terms{};
  std::size_t dimensions = 1;
};

// GEMM, also with what follows it: three dimensions, terms {m n k, 1, n k, m k, m n}. Attention and
// its parts: three, {flop, 1, bytes}. Else one, {bytes, 1}; bytes by WorkOf. Sizes of 0 give
// infinite logarithms.
OpFeatures FeaturesOf(const Op& op);

// Bits of what makes a table of its own among the ops of one kind that do not communicate; copies
// have one a route.
inline constexpr int kAccumulateBit = 1;
int VariantOf(const Op& op);

// An op whose time is the point's.
Op OpOf(const ProfilePoint& point);

}  // namespace foretrain

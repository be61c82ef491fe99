// The cost of a pair of an op and its kernels: how much speaks against it. align.h finds the pairs
// of least cost.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/compare/structure/align.h"

namespace foretrain {

// Whether the item is a landmark: a product or attention.
inline bool IsHeavy(const AlignedItem& item) {
  return item.op_class == OpClass::kGemm || item.op_class == OpClass::kAttention;
}

// Length and number of the kernels that ops of one kind usually have. 0: unknown.
struct Expected {
  double scale = 0;    // traced length per forecast length
  double kernels = 0;  // their number
  // Share of the ops that have a kernel of each name, by AlignedItem::name; empty: unknown.
  std::vector<float> names{};
  // Share of ops that have kernels among the other kinds whose names end alike; < 0: unknown.
  double siblings_paired = -1;
};
// Kernels that follow each other, as those of one op. It borrows the op and what is expected of it.
// Kernels are added at the front.
class Group {
 public:
  Group(const AlignedItem& op, const Expected& expected) : op_(op), expected_(expected) {}

  void Add(const AlignedItem& kernel);
  // Whether this and every larger group cost more than to leave all alone.
  bool IsHopeless() const;
  float Cost() const;

 private:
  const AlignedItem& op_;
  const Expected& expected_;
  float members_ = 0;
  double length_ = 0;
  std::uint64_t topics_ = 0, hints_ = 0;
  int heavy_ = 0, light_ = 0;
  float light_weight_ = 0;
  float heaviest_ = 0;    // the largest weight: that of the kernel that the op has at least
  bool follows_ = false;  // the first one
};

// The cost of an op or kernel without a counterpart.
float AloneCost(const AlignedItem& item);
// As above for an op: one whose siblings have no kernels either costs less.
float OpAloneCost(const AlignedItem& op, const Expected& expected);
// The cost of one more kernel of an op that has others.
float JoinCost(const AlignedItem& op, const Expected& expected, const AlignedItem& kernel);

}  // namespace foretrain

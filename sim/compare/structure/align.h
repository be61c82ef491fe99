// Aligns two sequences of work that ran in one order: the ops of a forecast, and the kernels of a
// trace, of which none knows the other's names. Several kernels may belong to one op.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

// One op or one kernel. Unknown facts never hinder a pair.
struct AlignedItem {
  OpClass op_class = OpClass::kMemoryBound;
  Pass pass = Pass::kNone;   // kNone: unknown
  int block = -1;            // -1: unknown
  int micro_batch = -1;      // -1: unknown
  std::uint64_t topics = 0;  // a bit for each topic that the name speaks of (name_topics.h)
  std::uint64_t hints = 0;   // of a kernel: topics that it may be about
  int name = -1;             // of a kernel: equal for equal names; -1: unknown
  int kind = 0;              // of an op: equal for ops that should take equally long; >= 0
  int word = -1;  // of an op: equal for ops whose names end alike, as "residual"; -1: unknown
  bool follows = false;  // of a kernel: belongs to the one before it, as a sum of partial products
  bool says_backward = false;  // its name is that of a backward pass
  // The collective or transfer that it is, if it is communication. kBlock: unknown.
  InstructionKind transfer = InstructionKind::kBlock;
  double length = 0;  // time or bytes, in a unit of its side; 0: unknown
  // How much it matters that it stays alone or joins others, in (0, 1]; AlignItems sets it.
  float weight = 1;
};

inline constexpr int kUnpaired = -1;

// Returns, for each kernel, the index of its op or kUnpaired. Indices never decrease: both
// sequences are in order of time.
//
// The alignment has the least cost. A pair costs what speaks against it: another class, pass, layer
// or topic, or a length unlike that of other pairs of its kind. Ops and kernels may stay alone, at
// a cost, because either side may fuse or add work. Products and attention are aligned first; what
// lies between two of them is aligned within. This is repeated, because lengths can be told from
// the first result.
//
// O((ops + kernels) * w), where w is how far the sequences drift apart.
std::vector<int> AlignItems(std::span<const AlignedItem> ops, std::span<const AlignedItem> kernels);

}  // namespace foretrain

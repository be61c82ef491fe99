// How long and how many the kernels of each kind of op should be.
#pragma once

#include <span>
#include <vector>

#include "sim/compare/structure/alignment_costs.h"

namespace foretrain {

using ExpectedByKind = std::vector<Expected>;

// Told from an alignment: ops of one kind are alike.
//
//   pairs  as AlignItems returns them; empty: nothing is aligned yet
//   heavy  of products and attention alone
//
// O(ops + kernels).
ExpectedByKind ExpectedOf(std::span<const AlignedItem> ops, std::span<const AlignedItem> kernels,
                          const std::vector<int>& pairs, bool heavy);

}  // namespace foretrain

// Sorting for passes that add edges to those that Link derives.
#pragma once

#include "sim/program/ir/program.h"

namespace foretrain {

// Sorts the rank's edges as Link does, by (to, from, distance), and removes duplicates. O(n log n).
void SortEdges(RankProgram& rank);

}  // namespace foretrain

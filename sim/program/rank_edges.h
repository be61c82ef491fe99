// Edges of a rank that come in beside those that link derives.
#pragma once

#include "sim/program/program.h"

namespace foretrain {

// Puts the rank's edges in the order that link gives them, by their ends, each once.
// O(n log n).
void SortEdges(RankProgram& rank);

}  // namespace foretrain

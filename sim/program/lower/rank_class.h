// Which ranks a simulation need not tell apart.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

// For each rank the one that stands for it, itself for the first of a class. Ranks of a class run
// the same ops on equal sizes and meet the same classes in each of their groups, so that all are
// equally far at all times. With RankChoice::kFirst the first rank of a stage stands for all of it,
// whose shards may differ in padding and in what they count into the norm. Empty for kAll.
//
//   model, plan  valid together
//
// O(ranks * (parameters of a stage + members of its groups)) for kClasses, else O(ranks).
std::vector<std::int32_t> Representatives(const ModelSpec& model, const Plan& plan,
                                          RankChoice choice);

}  // namespace foretrain

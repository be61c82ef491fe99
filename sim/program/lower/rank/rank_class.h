// Classes of ranks that a simulation need not tell apart.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

// For each rank, the first rank of its class, which stands for it. Ranks of a class run the same
// ops on equal sizes and meet the same classes in each group, so they progress alike. With
// RankChoice::kFirst, the first rank of a stage stands for the whole stage; padding of shards and
// counts into the norm may then differ. Empty for kAll.
//
//   model, plan  valid together
//
// O(ranks * (parameters of a stage + members of its groups)) for kClasses, else O(ranks).
std::vector<std::int32_t> Representatives(const ModelSpec& model, const Plan& plan,
                                          RankChoice choice);

}  // namespace foretrain

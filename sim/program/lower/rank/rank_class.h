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
// kClasses falls back to kFirst if the classes would run more than kMaxClassPasses passes of blocks
// a step. Data-parallel ranks of large experts differ in padding alone, and then nearly every rank
// would be a class: DeepSeek-V3 on 1,024 GPUs has 1,024 of them.
//
//   model, plan  valid together
//
// O(ranks * (parameters of a stage + members of its groups)) for kClasses, else O(ranks).
inline constexpr std::int64_t kMaxClassPasses = 8'000;
std::vector<std::int32_t> Representatives(const ModelSpec& model, const Plan& plan,
                                          RankChoice choice);

}  // namespace foretrain

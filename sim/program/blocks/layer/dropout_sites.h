// Numbers of a block's dropouts. Each draws its own random numbers, the same ones whenever it runs
// for the same step, block and token, so that recomputation repeats them.
#pragma once

#include <cstdint>

namespace foretrain {

inline constexpr std::int32_t kAttentionSite = 0;  // attention weights
inline constexpr std::int32_t kBranch1Site = 1;    // attention branch
inline constexpr std::int32_t kBranch2Site = 2;    // MLP branch, or both branches in one sum
inline constexpr std::int32_t kEmbeddingSite = 3;

}  // namespace foretrain

// Which of a block's dropouts an op is: each draws random numbers of its own, the same ones whenever
// it runs for the same step, block and token.
#pragma once

#include <cstdint>

namespace foretrain {

inline constexpr std::int32_t kAttentionSite = 0;  // attention's weights
inline constexpr std::int32_t kBranch1Site = 1;    // what attention adds
inline constexpr std::int32_t kBranch2Site = 2;    // what the MLP adds, or both in one sum
inline constexpr std::int32_t kEmbeddingSite = 3;

}  // namespace foretrain

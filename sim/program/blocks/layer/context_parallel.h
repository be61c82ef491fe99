// Split of a sequence over context-parallel ranks: 2 * cp chunks, of which rank r has chunks r and
// 2 * cp - 1 - r. Under a causal mask each rank then computes the same number of pairs.
#pragma once

#include <array>
#include <cstdint>

namespace foretrain {

// Positions of the first token of both chunks of rank `rank`; each chunk has sequence / (2 * cp)
// tokens.
//
//   sequence  tokens of one sample, all ranks together; a multiple of 2 * cp
//   rank      in [0, cp)
//
// With cp 1: the two halves.
constexpr std::array<std::int64_t, 2> ChunkPositions(std::int64_t sequence, int cp, int rank) {
  const std::int64_t chunk = sequence / (std::int64_t{2} * cp);
  return {chunk * rank, chunk * (2 * cp - 1 - rank)};
}

}  // namespace foretrain

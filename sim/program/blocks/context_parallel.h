// How a sequence is shared out among context-parallel ranks: cut into 2 * cp chunks, of which rank
// r has chunks r and 2 * cp - 1 - r, so that causal attention is as much work for each of them.
#pragma once

#include <array>
#include <cstdint>

namespace foretrain {

// Position of the first token of either chunk of rank `rank`; each has sequence / (2 * cp) tokens.
//
//   sequence  of one sample, all ranks together; a multiple of 2 * cp
//   rank      in [0, cp)
//
// With cp 1: the two halves.
constexpr std::array<std::int64_t, 2> ChunkPositions(std::int64_t sequence, int cp, int rank) {
  const std::int64_t chunk = sequence / (std::int64_t{2} * cp);
  return {chunk * rank, chunk * (2 * cp - 1 - rank)};
}

}  // namespace foretrain

// Places buffers whose lives are all known at once. Leaves out whose memory is shared with whom and
// when it is free again: link_layout.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretrain {

// Memory that a buffer needs from op `first` to op `last`, both included.
struct Claim {
  std::int64_t bytes = 0;  // aligned, > 0
  std::int32_t first = 0;  // in [0, ops)
  std::int32_t last = 0;   // in [first, ops)
};

struct Packing {
  std::vector<std::int64_t> offsets;  // by claim, from 0
  std::int64_t bytes = 0;             // end of the highest
};

// Offsets such that no two claims that meet in time overlap. Largest first, each goes to the
// smallest gap that holds it between those placed that it meets (greedy by size: Pisarchyk and Lee
// 2020, s. 5.2); where that is longer than `enough` times what is claimed at once, the same by
// bytes times length of life, and the shorter of both stands. O(claims * claims at once).
Packing Pack(std::span<const Claim> claims, std::int32_t ops, double enough = 1);

struct AtOnce {
  std::int64_t bytes = 0;
  std::int64_t claims = 0;
};

// The most bytes that are claimed at once, which no packing is shorter than, and the most claims.
// O(claims + ops).
AtOnce MostAtOnce(std::span<const Claim> claims, std::int32_t ops);

}  // namespace foretrain

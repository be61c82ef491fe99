// Places buffers whose lifetimes are all known. Leaves out who may share memory and when it is free
// again (link/layout.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretrain {

// The memory that a buffer needs from op `first` to op `last`, both included.
struct Claim {
  std::int64_t bytes = 0;  // aligned, > 0
  std::int32_t first = 0;  // in [0, ops)
  std::int32_t last = 0;   // in [first, ops)
};

struct Packing {
  std::vector<std::int64_t> offsets;  // by claim, >= 0
  std::int64_t bytes = 0;             // end of the highest claim
};

// Offsets such that no two claims that overlap in time overlap in memory. Largest first, each goes
// to the smallest gap that holds it between the placed claims that overlap it in time (greedy by
// size: Pisarchyk and Lee 2020, s. 5.2). If the result exceeds `enough` times the bytes claimed at
// once, the order by bytes times lifetime is tried too and the shorter wins. O(claims * claims at
// once).
Packing Pack(std::span<const Claim> claims, std::int32_t ops, double enough = 1);

struct AtOnce {
  std::int64_t bytes = 0;
  std::int64_t claims = 0;
};

// The maximum bytes claimed at once, which is a lower bound of every packing, and the maximum
// number of claims at once. O(claims + ops).
AtOnce MaxAtOnce(std::span<const Claim> claims, std::int32_t ops);

}  // namespace foretrain

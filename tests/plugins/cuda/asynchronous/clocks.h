// Vector clocks: which accesses of other threads a thread knows to have ended (Flanagan and Freund
// 2009, s. 2). Each thread counts its releases: arrivals and barriers. A barrier collects the
// clocks of those who arrive and gives them to those who wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace foretrain::ptx {

using Clock = std::vector<std::uint32_t>;

inline void Join(Clock& to, const Clock& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
}

// Clocks of two neighbouring uses of a barrier. A thread that runs ahead releases to the next one.
struct ClockPair {
  Clock of[2];
};

}  // namespace foretrain::ptx

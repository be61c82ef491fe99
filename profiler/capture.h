// What is recorded of a run: how much, and of which steps and ranks. Leaves out recording itself
// (profiler/span_recorder.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace foretrain {

// kOff: how long steps took. kLaunches: spans of ops as the host sees them too, and on a device of
// its own its calls. kFull: memory and what the device did besides.
enum class CaptureLevel : std::uint8_t { kOff, kLaunches, kFull };

// Steps first_step to end_step - 1 of the training, of some ranks.
struct CaptureWindow {
  std::int64_t first_step = 0;
  std::int64_t end_step = std::numeric_limits<std::int64_t>::max();
  std::vector<int> ranks{};  // sorted; empty is all

  bool CoversStep(std::int64_t step) const { return step >= first_step && step < end_step; }
  bool CoversRank(int rank) const {
    return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
  }
};

}  // namespace foretrain

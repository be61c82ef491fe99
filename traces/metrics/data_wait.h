// Time that steps wait for their tokens.
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/timeline.h"

namespace foretrain {

// If the tokens of a load are not there yet, the wait is a span of class host before the load's
// own, on the load's queue: op number kDataWaitOp of its instruction.
inline constexpr int kDataWaitOp = 1;
inline constexpr std::string_view kDataWaitName = "data wait";

// Shorter waits have no span.
inline constexpr std::int64_t kMinDataWaitNs = 100'000;

// True for spans of such waits.
bool IsDataWait(OpId op);

struct DataWait {
  std::int64_t waited_ns = 0;   // unions of each rank's waits, summed over ranks
  std::int64_t exposed_ns = 0;  // the part in which the rank's device had no work
  std::int64_t window_ns = 0;   // of the step, summed over ranks

  // Share of the step in which a rank stands still for its tokens, in [0, 1]; 0 without a window.
  double ExposedShare() const {
    return window_ns == 0 ? 0.0 : static_cast<double>(exposed_ns) / static_cast<double>(window_ns);
  }
};

// The waits within the windows of `step`.
//
//   timeline  sorted
//
// O(n log n) in the spans.
DataWait DataWaitOf(const Timeline& timeline, std::int32_t step);

}  // namespace foretrain

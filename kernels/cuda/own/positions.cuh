// Runs of rows, passed to kernels by value, because the caller's array lies in host memory.
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

constexpr std::int64_t kMaxRuns = 64;

struct Runs {
  FtRun at[kMaxRuns];
  std::int32_t count;

  // Position of row `row` of a sample; the row itself if no run contains it.
  FT_DEVICE std::int64_t PositionOf(std::int64_t row) const {
    for (std::int32_t r = 0; r < count; ++r) {
      if (row >= at[r].row && row < at[r].row + at[r].rows) {
        return at[r].position + row - at[r].row;
      }
    }
    return row;
  }
};

// Copy of the runs; empty if `runs` is NULL.
inline Runs RunsOf(CudaCheck& check, const FtRun* runs, std::int64_t count) {
  Runs copy{};
  if (runs == nullptr) return copy;
  check.Size("run_count", count).AtMost("run_count", count, kMaxRuns);
  if (!check.ok()) return copy;
  copy.count = static_cast<std::int32_t>(count);
  for (std::int64_t i = 0; i < count; ++i) copy.at[i] = runs[i];
  return copy;
}

}  // namespace foretrain

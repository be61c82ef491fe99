// Which GPUs were held below their clocks while a run was recorded, from the stored readings of the
// driver's monitor. Leaves out the reading (profiler/gpu_monitor.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "traces/run.h"

namespace foretrain {

// Why a GPU ran below its clocks; several may hold at once. Of NVML's reasons those that slow a
// busy GPU down: not idling, nor clocks that somebody set.
enum class ThrottleReason : std::uint8_t { kPowerCap, kHeat, kPowerBrake, kHardware };
inline constexpr int kThrottleReasonCount = 4;

// "power-capped", "slowed down by heat", "slowed down by its power supply",
// "slowed down by its hardware".
std::string_view Describe(ThrottleReason reason);

// What NVML's bits say of a reason.
bool HasReason(std::uint64_t bits, ThrottleReason reason);

struct Throttling {
  int rank = 0;
  ThrottleReason reason = ThrottleReason::kPowerCap;
  double share = 0;  // of the time that readings cover, in (0, 1]
  // Mean clocks of the multiprocessors in that time and in the rest, where there are both.
  std::optional<double> clock_hz{}, other_clock_hz{};
};

// The ranks whose GPU was held back in [start_ns, end_ns), by rank, then by reason. A reading
// stands until the next one, for at most 2 s; a hardware slowdown that heat or a power brake
// explains counts as these alone. O(n log n).
std::vector<Throttling> ThrottledRanks(std::span<const Counter> counters, std::int64_t start_ns,
                                       std::int64_t end_ns);

}  // namespace foretrain

// GPUs that ran below their clocks while a run was recorded, from stored readings of the driver's
// monitor (profiler/gpu_monitor.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "traces/run.h"

namespace foretrain {

// Reason why a busy GPU ran below its clocks; several may hold at once. NVML's reasons "idle" and
// "clocks set by the user" are left out.
enum class ThrottleReason : std::uint8_t { kPowerCap, kHeat, kPowerBrake, kHardware };
inline constexpr int kThrottleReasonCount = 4;

// "power-capped", "slowed down by heat", "slowed down by its power supply",
// "slowed down by its hardware".
std::string_view Describe(ThrottleReason reason);

// The stored counter that holds NVML's bits.
inline constexpr std::string_view kThrottleCounter = "gpu_throttle_reasons";

// True if NVML's bits contain the reason.
bool HasReason(std::uint64_t bits, ThrottleReason reason);

// True if a reading of kThrottleCounter contains any reason; false if it holds no bits.
bool IsThrottled(double reading);

struct Throttling {
  int rank = 0;
  ThrottleReason reason = ThrottleReason::kPowerCap;
  double share = 0;  // of the time that readings cover, in (0, 1]
  // Mean SM clock during that time and during the rest; `nullopt` if there is no reading.
  std::optional<double> clock_hz{}, other_clock_hz{};
};

// The ranks whose GPU was slowed down in [start_ns, end_ns), by rank, then reason. A reading holds
// until the next one, for at most 2 s. A hardware slowdown that heat or a power brake explains
// counts only under those. O(n log n).
std::vector<Throttling> ThrottledRanks(std::span<const Counter> counters, std::int64_t start_ns,
                                       std::int64_t end_ns);

}  // namespace foretrain

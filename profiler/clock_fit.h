// Fits a line that converts device times to the host's clock.
#pragma once

#include <cstdint>
#include <span>

namespace foretrain {

// One reading of both clocks. The device's was read between two readings of the host's, width_ns
// apart; host_ns is their middle.
struct ClockSample {
  std::int64_t host_ns = 0;
  std::int64_t device_ns = 0;
  std::int64_t width_ns = 0;
};

// host = host_ns + rate * (device - device_ns).
struct ClockFit {
  std::int64_t host_ns = 0;
  std::int64_t device_ns = 0;
  double rate = 1.0;          // host ns per device ns: 1 + drift
  std::int64_t error_ns = 0;  // largest distance of a sample from the line, plus half its width

  std::int64_t ToHost(std::int64_t device_time_ns) const;
};

// Least-squares line through the samples at most twice as wide as the narrowest; wider ones were
// interrupted. Drift is estimated only if samples span `min_spread_ns`; else the line has rate 1. A
// device on the host's clock gets rate 1 and offset 0. No samples: the clocks are equal. O(n); safe
// from any thread.
ClockFit FitClock(std::span<const ClockSample> samples, std::int64_t min_spread_ns = 10'000'000);

}  // namespace foretrain

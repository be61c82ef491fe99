// Brings a device's times to the host's clock. Leaves out who reads the clocks.
#pragma once

#include <cstdint>
#include <span>

namespace foretrain {

// Both clocks at one moment: the device's was read between two readings of the host's that lie
// width_ns apart, and host_ns is their middle.
struct ClockSample {
  std::int64_t host_ns = 0;
  std::int64_t device_ns = 0;
  std::int64_t width_ns = 0;
};

// host = host_ns + rate * (device - device_ns).
struct ClockFit {
  std::int64_t host_ns = 0;
  std::int64_t device_ns = 0;
  double rate = 1.0;          // host nanoseconds a device nanosecond: 1 + drift
  std::int64_t error_ns = 0;  // how far a sample lies from the line at most, and half its width

  std::int64_t ToHost(std::int64_t device_time_ns) const;
};

// The line of least squares through the samples that are no more than twice as wide as the
// narrowest: others were interrupted while they read. A drift is told from samples at least
// `least_spread_ns` apart; nearer ones give an offset alone. A device that shares the host's clock
// has rate 1 and offset 0. Without samples: the clocks are one. O(n); safe from any thread.
ClockFit FitClock(std::span<const ClockSample> samples, std::int64_t least_spread_ns = 10'000'000);

}  // namespace foretrain

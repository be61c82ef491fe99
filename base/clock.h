// Interface to time. Code that needs a clock receives one, so that tests can set it and make it
// jump. Device clocks and their alignment are in profiler/.
#pragma once

#include <cstdint>

namespace foretrain {

// Times are nanoseconds. All functions are safe from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Nanoseconds since 1970 UTC; may jump forwards and backwards.
  virtual std::int64_t RealtimeNs() = 0;
  // Nanoseconds since an unspecified start; never decreases. About 20 ns a call on a system clock.
  virtual std::int64_t MonotonicNs() = 0;
};

// The operating system's clocks: CLOCK_REALTIME and CLOCK_MONOTONIC.
class SystemClock final : public Clock {
 public:
  std::int64_t RealtimeNs() override;
  std::int64_t MonotonicNs() override;
};

}  // namespace foretrain

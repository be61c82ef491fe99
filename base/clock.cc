#include "base/clock.h"

#include <time.h>

#include "base/result.h"

namespace foretrain {
namespace {

std::int64_t Read(clockid_t id) {
  timespec now{};
  FT_CHECK(clock_gettime(id, &now) == 0);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

// CLOCK_REALTIME may jump, so durations are measured by the monotonic clock.
std::int64_t SystemClock::RealtimeNs() { return Read(CLOCK_REALTIME); }
std::int64_t SystemClock::MonotonicNs() { return Read(CLOCK_MONOTONIC); }

}  // namespace foretrain

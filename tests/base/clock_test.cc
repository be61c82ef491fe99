#include "base/clock.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

TEST(SystemClock, GoesForwardFromATimeAfter2020) {
  SystemClock clock;
  const std::int64_t before = clock.MonotonicNs();
  EXPECT_GE(clock.MonotonicNs(), before);
  EXPECT_GT(clock.RealtimeNs(), 1'600'000'000'000'000'000);  // after September 2020
}

}  // namespace
}  // namespace foretrain

// Many runs under random delays. Slow: FORETRAIN_JITTERED_RUNS sets their number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/runtime/executor/faults/mixed_program.h"

namespace foretrain {
namespace {

std::uint64_t Runs() {
  const char* asked = std::getenv("FORETRAIN_JITTERED_RUNS");
  return asked == nullptr ? 500 : static_cast<std::uint64_t>(std::max(1, std::atoi(asked)));
}

TEST(ManyDelays, DeadlockNoRunAndChangeNoBit) {
  const std::vector<float> first = LossesUnderDelays(1'000);
  EXPECT_GT(first[0], 0.0F);
  for (std::uint64_t run = 1; run < Runs() && !HasFailure(); ++run) {
    EXPECT_EQ(LossesUnderDelays(1'000 + run), first) << "seed " << 1'000 + run;
  }
}

}  // namespace
}  // namespace foretrain

// Faults of the machine against faults of the training: a hundred of each, at random places. Slow:
// two hundred runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "tests/runtime/executor/faults/spoiled_steps.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kTransient = "a fault of the machine is likely";
constexpr std::array kOps = {"attention.qkv", "attention.out",        "mlp.up",
                             "mlp.down",      "mlp.down.weight_grad", "mlp.up.weight_grad"};

// The step runs again on the same data: a value that was spoiled once is finite then, and one that
// is spoiled each time is not.
TEST(FaultTrials, TellAHundredThatRepeatFromAHundredThatDoNot) {
  std::mt19937_64 random(33);
  for (int trial = 0; trial < 200; ++trial) {
    const bool once = trial % 2 == 0;
    Spoiler spoiler;
    spoiler.rank = static_cast<int>(random() % 4);
    spoiler.step = static_cast<std::int64_t>(random() % 3);
    spoiler.value = std::array{kNan, kInfinity, -kInfinity}[random() % 3];
    if (once) spoiler.times = 1;
    const std::string op = kOps[random() % kOps.size()];
    const Ended ended = RunSteps(TinyGpt(), ClippedPlan(), 3, &spoiler, Named(op));
    ASSERT_FALSE(ended.summary.has_value()) << op;
    const Error& error = ended.summary.error();
    EXPECT_EQ(error.code, ErrorCode::kNotFinite);
    const std::string step = "step " + std::to_string(spoiler.step);
    EXPECT_THAT(error.message, HasSubstr(step));
    if (once) {
      EXPECT_THAT(error.message, HasSubstr(kTransient)) << op;
    } else {
      EXPECT_THAT(error.message, Not(HasSubstr(kTransient))) << op;
      EXPECT_THAT(error.message, HasSubstr("rank " + std::to_string(spoiler.rank) + ", " + step));
      EXPECT_THAT(error.message, HasSubstr(", " + op + ": "));
    }
  }
}

}  // namespace
}  // namespace foretrain

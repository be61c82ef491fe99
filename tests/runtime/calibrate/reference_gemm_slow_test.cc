// Runs on the mock device, whose GEMM is a plain triple loop and takes seconds.
#include "runtime/calibrate/reference_gemm.h"

#include <gtest/gtest.h>

#include "tests/runtime/device/mock_device.h"

namespace foretrain {
namespace {

TEST(ReferenceGemm, HandsOnWhatTheDeviceRefuses) {
  Mock().Reset();
  Mock().fail_at = 12;  // one of the multiplications, while others wait for all to be ready
  RealClock clock;
  const auto spread = MeasureReferenceGemm(MockDeviceApi(), 0, clock, 2, 1e-6);
  Mock().Reset();
  ASSERT_FALSE(spread.has_value());
  EXPECT_EQ(Mock().live_allocations, 0);
}

}  // namespace
}  // namespace foretrain

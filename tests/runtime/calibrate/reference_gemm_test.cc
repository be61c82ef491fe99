#include "runtime/calibrate/reference_gemm.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_device.h"

namespace foretrain {
namespace {

DeviceProfile ProfileWith(const std::vector<std::pair<int, double>>& times) {
  DeviceProfile profile;
  profile.reference = {kReferenceGemmSize, kReferenceGemmSize, kReferenceGemmSize, 1e-3};
  for (const auto& [ranks, seconds] : times) {
    ProfilePoint point;
    point.kind = OpKind::kGemm;
    point.shape.rows = point.shape.cols = point.shape.inner = kReferenceGemmSize;
    point.concurrency = ranks;
    point.seconds = seconds;
    profile.points.push_back(point);
  }
  return profile;
}

TEST(ReferenceGemm, IsStraightBetweenMeasuredNumbersOfRanks) {
  const DeviceProfile profile = ProfileWith({{1, 1e-3}, {4, 4e-3}});
  EXPECT_DOUBLE_EQ(ReferenceSeconds(profile, 1), 1e-3);
  EXPECT_DOUBLE_EQ(ReferenceSeconds(profile, 2), 2e-3);
  EXPECT_DOUBLE_EQ(ReferenceSeconds(profile, 4), 4e-3);
  EXPECT_DOUBLE_EQ(ReferenceSeconds(profile, 9), 4e-3) << "the nearest beyond the last";
}

TEST(ReferenceGemm, FallsBackToTheOneTimeOfAProfileWithoutPoints) {
  EXPECT_DOUBLE_EQ(ReferenceSeconds(ProfileWith({}), 2), 1e-3);
  EXPECT_DOUBLE_EQ(ReferenceSeconds(DeviceProfile{}, 2), 0);
}

TEST(ReferenceGemm, TakesNoOtherGemmForItself) {
  DeviceProfile profile = ProfileWith({{1, 1e-3}, {2, 5e-3}});
  profile.points.back().trans_b = true;
  EXPECT_DOUBLE_EQ(ReferenceSeconds(profile, 2), 1e-3);
}

TEST(ReferenceGemm, IsTimedOnAsManyThreadsAsAsked) {
  RealClock clock;
  const auto spread = MeasureReferenceGemm(CpuDeviceApi(), 0, clock, 3, 1e-6);
  ASSERT_TRUE(spread.has_value()) << spread.error().message;
  EXPECT_GE(spread->samples, 3);
  EXPECT_GT(spread->mean, 0);
}

TEST(Drift, IsOneForAProfileThatWasNeverMeasured) {
  RealClock clock;
  const auto drift = MeasureDrift(CpuDeviceApi(), 0, clock, DeviceProfile{}, 2);
  ASSERT_TRUE(drift.has_value());
  EXPECT_EQ(*drift, 1.0);
}

}  // namespace
}  // namespace foretrain

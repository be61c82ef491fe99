#include "sim/cost/profile/derive_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// 0.75 of 9 PFLOP/s; without its own peak, 0.75 of the 2 PFLOP/s of fp8.
TEST(DeriveProfile, TakesFp4FromItsOwnPeakWhereItIsPublished) {
  ClusterSpec cluster = GpuCluster(1, 8);
  cluster.device.fp8_flop_per_s = 2e15;
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.gemm_fp4_flop_per_s.value, 1.5e15);
  cluster.device.fp4_flop_per_s = 9e15;
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.gemm_fp4_flop_per_s.value, 6.75e15);
}

// Each PCIe switch has two devices of four behind it, so 14 GB/s become 7 each. A host with 4 cores
// moves 40 GB/s, 5 for each of 8 devices.
TEST(DeriveProfile, SharesPcieAndTheHostsMemory) {
  ClusterSpec cluster = GpuCluster(1, 8);
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.copy_bytes_per_s.value, 14e9);
  cluster.device.devices_per_pcie_switch = 2;
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.copy_bytes_per_s.value, 7e9);
  cluster.devices_per_node = 1;
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.copy_bytes_per_s.value, 14e9);
  cluster.devices_per_node = 8;
  cluster.cores = 4;
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.copy_bytes_per_s.value, 5e9);
  EXPECT_DOUBLE_EQ(DeriveProfile(cluster).rates.host_bytes_per_s.value, 5e9);
}

// sqrt(2 ln 16384) = 4.4055 and sqrt(2 ln 1000) = 3.7169; 1 % of the difference.
TEST(DeriveProfile, MarksEveryFigureAsDefaultAndSaysSo) {
  const DeviceProfile profile = DeriveProfile(GpuCluster(1, 8));
  EXPECT_DOUBLE_EQ(profile.rates.gemm_bf16_flop_per_s.value, 750e12);
  EXPECT_EQ(profile.rates.gemm_bf16_flop_per_s.provenance, Provenance::kDefault);
  EXPECT_THAT(profile.assumptions, HasSubstr("nothing on this machine has proven"));
  EXPECT_TRUE(ValidateProfile(profile).has_value());
  EXPECT_TRUE(ValidateProfile(DeriveProfile(CpuCluster(2, 2))).has_value());
}

TEST(DeriveProfile, NamesThePeakThatStandsInForAnUnknownOne) {
  ClusterSpec cluster = GpuCluster(1, 8);
  cluster.device.bf16_flop_per_s = 0;
  cluster.device.fp16_flop_per_s = 125e12;  // V100
  const DeviceProfile profile = DeriveProfile(cluster);
  EXPECT_DOUBLE_EQ(profile.rates.gemm_bf16_flop_per_s.value, 0.75 * 125e12);
  EXPECT_THAT(profile.assumptions, HasSubstr("no bf16 peak is published, that of fp16 stands in"));
}

TEST(DeviceProfile, ReplacesPointsOfOneKeyAndFindsTheBestGemm) {
  DeviceProfile profile = DeriveProfile(CpuCluster(2, 2));
  EXPECT_EQ(BestGemmRate(profile).provenance, Provenance::kDefault);
  AddPoint(profile, Timed(PointOf(GemmOp(100, 100, 100)), 1e-4));
  AddPoint(profile, Timed(PointOf(GemmOp(100, 100, 100)), 1e-5));
  AddPoint(profile, Timed(PointOf(GemmOp(10, 10, 10)), 1e-6));
  EXPECT_EQ(profile.points.size(), 2U);
  EXPECT_NEAR(BestGemmRate(profile).value, 2e6 / 1e-5, 1.0);
  EXPECT_EQ(BestGemmRate(profile).provenance, Provenance::kMeasured);
}

}  // namespace
}  // namespace foretrain

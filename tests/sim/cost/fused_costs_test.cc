// Costs of a product fused with the ops after it.
#include <gtest/gtest.h>

#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

CostModel Make(const ClusterSpec& cluster, const DeviceProfile& profile) {
  auto model = CostModel::Make(cluster, profile);
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return *CostModel::Make(GpuCluster(1, 1), IdealProfile());
  }
  return *std::move(model);
}

DeviceProfile CpuProfile() { return DeriveProfile(CpuCluster(2, 2)); }

Op WithKind(OpKind kind, Op op) {
  op.kind = kind;
  return op;
}

// A product of side 1000 is bound by its flop, which hide an extra matrix. A flat product is bound
// by its bytes: 2e6 flop take 0.03 us, 8 MB and more take 9.4 us. There, 4 MB more add 4.7 us.
TEST(FusedCosts, AddsTheBytesOfWhatFollowsAProductInItsKernel) {
  const CostModel costs = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  const Op wide = GemmOp(1000, 1000, 1000), flat = GemmOp(1000, 1000, 1);
  const auto added = [&](OpKind kind, const Op& op) {
    return costs.CostOf(WithKind(kind, op)).Alone() - costs.CostOf(op).Alone();
  };
  EXPECT_NEAR(added(OpKind::kGemmActivationKept, wide), 0, 1e-12);
  EXPECT_NEAR(added(OpKind::kGemmActivationKept, flat), 4e6 / 0.85e12, 1e-12);
  EXPECT_NEAR(added(OpKind::kGemmActivationBackward, flat), 4e6 / 0.85e12, 1e-12);
  EXPECT_NEAR(added(OpKind::kGemmActivation, flat), 0, 1e-12);
  EXPECT_NEAR(added(OpKind::kGemmBiasGrad, flat), 4e3 / 0.85e12, 1e-12);
}

// An epilogue that the library lacks costs another kernel of 3 us. GELU of a million numbers reads
// and writes 8 MB. Sums of [1, 1000] read and write 4 kB each, and the values they add to.
TEST(FusedCosts, TakesAKernelMoreForWhatTheLibraryHasNot) {
  const CostModel costs = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  Op gemm = GemmOp(1000, 1000, 1);
  Op fused = WithKind(OpKind::kGemmActivationKept, gemm);
  fused.activation = ActivationKind::kGeluErf;
  EXPECT_NEAR(costs.CostOf(fused).Alone() - costs.CostOf(gemm).Alone(), 8e6 / 0.85e12 + 3e-6,
              1e-12);
  gemm.trans_a = gemm.accumulate = true;
  EXPECT_NEAR(
      costs.CostOf(WithKind(OpKind::kGemmBiasGrad, gemm)).Alone() - costs.CostOf(gemm).Alone(),
      12e3 / 0.85e12 + 3e-6, 1e-12);
}

// On a CPU both kernels run, each with its own points. A point of the fused op takes precedence.
TEST(FusedCosts, AddsTheTimesOfBothOnACpuUntilTheyWereMeasuredTogether) {
  DeviceProfile profile = CpuProfile();
  const Op gemm = GemmOp(8, 16, 4), fused = WithKind(OpKind::kGemmActivationKept, gemm);
  Op gelu;
  gelu.kind = OpKind::kGeluForward;
  gelu.shape.rows = 8;
  gelu.shape.cols = 16;
  AddPoint(profile, Timed(PointOf(gemm, 1, 1, 1), 5e-6));
  AddPoint(profile, Timed(PointOf(gelu, 1, 1, 1), 2e-6));
  const OpCost apart = Make(CpuCluster(1, 2), profile).CostOf(fused);
  EXPECT_NEAR(apart.Alone(), 7e-6, 1e-12);
  EXPECT_EQ(apart.provenance, Provenance::kMeasured);
  AddPoint(profile, Timed(PointOf(fused, 1, 1, 1), 6e-6));
  EXPECT_NEAR(Make(CpuCluster(1, 2), profile).CostOf(fused).Alone(), 6e-6, 1e-12);
  EXPECT_NEAR(Make(CpuCluster(1, 2), profile).CostOf(gemm).Alone(), 5e-6, 1e-12);
}

}  // namespace
}  // namespace foretrain

#include "sim/cost/kernels/kernel_model.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

// 100 multiprocessors without losses, so that expected values can be computed by hand.
KernelModel Ideal() {
  KernelModel model;
  const auto is = [](double value) { return Figure{value, Provenance::kDefault}; };
  model.architecture.gemm_efficiency = is(1);
  model.architecture.tile_s = is(0);
  model.architecture.l2_bytes_per_s = is(1e18);
  model.architecture.memory_efficiency = is(1);
  model.architecture.kernel_s = is(0);
  model.architecture.unaligned_share = is(0.25);
  model.architecture.score_efficiency = is(0.5);
  model.multiprocessors = 100;
  model.half_flop_per_s = 100e12;
  model.fp8_flop_per_s = 200e12;
  model.fp4_flop_per_s = 400e12;
  model.memory_bytes_per_s = 1e18;
  return model;
}

// 10 x 10 tiles of 256 x 128 are one wave: 2 * 2560 * 1280 * 1024 / 100e12 s. With one more column
// of tiles, 64 x 64 is best: 880 tiles in 9 waves of an eighth.
TEST(KernelModel, CountsTheLastWaveOfTilesInFull) {
  const double wave = 2.0 * 256 * 128 * 1024 / 1e12;
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kBf16, 1, 2560, 1280, 1024, 0), wave, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kBf16, 1, 2560, 1408, 1024, 0), 9.0 / 8 * wave,
              1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp8, 1, 2560, 1280, 1024, 0), wave / 2, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp4, 1, 2560, 1280, 1024, 0), wave / 4, 1e-12);
}

// One tile of 64 x 64 on one multiprocessor at 1 TFLOP/s takes 2 * 64 * 64 * 64 / 1e12 s. An
// unaligned product runs at half the rate; a batch of 100, which also fills the device, at a
// quarter.
TEST(KernelModel, LoadsSizesThatAreNotAlignedAtAShareOfTheRate) {
  const double aligned = 2.0 * 64 * 64 * 64 / 1e12;
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp16, 1, 64, 56, 64, 0), aligned, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp16, 1, 64, 63, 64, 0), 2 * aligned, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp16, 100, 64, 56, 64, 0), aligned, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp16, 100, 64, 63, 64, 0), 4 * aligned, 1e-12);
}

// s = d = 8, one head, 1 TB/s. Two products move 2 (64 + 2 * 64) bytes each; softmax moves 4 * 64
// and dropout 5 * 64, both at half the rate.
TEST(KernelModel, WritesTheScoresOfStandardAttention) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  model.half_flop_per_s = 1e30;  // so that only bytes count
  Op op;
  op.kind = OpKind::kStandardAttentionForward;
  op.shape.batch = op.shape.heads = 1;
  op.shape.sequence = op.shape.inner = op.shape.head_dim = 8;
  EXPECT_NEAR(StandardAttentionSeconds(model, op), 1280e-12, 1e-15);
  op.dropout = 0.1F;
  EXPECT_NEAR(StandardAttentionSeconds(model, op), 1920e-12, 1e-15);
  op.shape.inner = 0;  // one product less
  EXPECT_NEAR(StandardAttentionSeconds(model, op), 1536e-12, 1e-15);
}

// Same as above with values of 16 numbers: QK^T 384 bytes, softmax 512, PV 2 (64 + 2 * 128) = 640.
// Backward: dP and dV 640 bytes each, dQ and dK 384 each, softmax 6 * 64 at half the rate.
TEST(KernelModel, TakesTheWidthOfValuesInStandardAttention) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  model.half_flop_per_s = 1e30;
  Op op;
  op.kind = OpKind::kStandardAttentionForward;
  op.shape.batch = op.shape.heads = 1;
  op.shape.sequence = op.shape.inner = op.shape.head_dim = 8;
  op.shape.value_dim = 16;
  EXPECT_NEAR(StandardAttentionSeconds(model, op), 1536e-12, 1e-15);
  op.kind = OpKind::kStandardAttentionBackward;
  EXPECT_NEAR(StandardAttentionSeconds(model, op), 2816e-12, 1e-15);
}

// 64 x 64 gradients at 1 TB/s: 2 bytes for the product's output, and a 4-byte sum read and written.
TEST(KernelModel, AddsGradientsBehindTheirProductWhereTheSystemDoes) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  Op op;
  op.kind = OpKind::kGemm;
  op.format = NumberFormat::kBf16;
  op.formats = {NumberFormat::kBf16, NumberFormat::kBf16, NumberFormat::kFp32, NumberFormat::kFp32};
  op.shape.rows = op.shape.cols = op.shape.inner = 64;
  op.trans_a = true;
  SystemOptions apart;
  apart.fused_accumulation = false;
  const auto seconds = [&](const SystemOptions& system) {
    return KernelSeconds(model, system, op, 0).value();
  };
  EXPECT_DOUBLE_EQ(seconds(apart), seconds({}));  // nothing to add to
  op.accumulate = true;
  EXPECT_NEAR(seconds(apart) - seconds({}), 64 * 64 * 10e-12, 1e-15);
  op.trans_a = false;  // not a weight gradient
  EXPECT_DOUBLE_EQ(seconds(apart), seconds({}));
}

TEST(KernelModel, KnowsTheArchitectureOfADeviceByItsName) {
  const auto architectures = BuiltInArchitectures();
  ASSERT_TRUE(architectures.has_value()) << architectures.error().message;
  EXPECT_EQ(FindArchitecture(*architectures, "A100-80GB-SXM")->name, "ampere");
  EXPECT_EQ(FindArchitecture(*architectures, "RTX5060Ti-16GB")->name, "blackwell-rtx");
  EXPECT_EQ(FindArchitecture(*architectures, "MI300X-192GB"), nullptr);
}

}  // namespace
}  // namespace foretrain

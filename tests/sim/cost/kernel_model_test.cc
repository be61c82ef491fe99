#include "sim/cost/kernel_model.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

// 100 multiprocessors that lose nothing: every figure checks by hand.
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

// 10 x 10 tiles of 256 x 128 are one wave: 2 * 2560 * 1280 * 1024 / 100e12 s. One column of tiles
// more leaves 64 x 64 the best: 880 tiles, 9 waves of an eighth.
TEST(KernelModel, CountsTheLastWaveOfTilesInFull) {
  const double wave = 2.0 * 256 * 128 * 1024 / 1e12;
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kBf16, 1, 2560, 1280, 1024, 0), wave, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kBf16, 1, 2560, 1408, 1024, 0), 9.0 / 8 * wave,
              1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp8, 1, 2560, 1280, 1024, 0), wave / 2, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp4, 1, 2560, 1280, 1024, 0), wave / 4, 1e-12);
}

// One tile of 64 x 64 on one multiprocessor, at 1 TFLOP/s: 2 * 64 * 64 * 64 / 1e12 s.
TEST(KernelModel, LoadsSizesThatAreNotAlignedAtAShareOfTheRate) {
  const double aligned = 2.0 * 64 * 64 * 64 / 1e12;
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp16, 1, 64, 56, 64, 0), aligned, 1e-12);
  EXPECT_NEAR(GemmSeconds(Ideal(), NumberFormat::kFp16, 1, 64, 63, 64, 0), 4 * aligned, 1e-12);
}

// s = d = 8, one head, 1 TB/s: two products of 2 (64 + 2 * 64) bytes, softmax 4 * 64 at half the
// rate, dropout 5 * 64 likewise.
TEST(KernelModel, WritesTheScoresOfStandardAttention) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  model.half_flop_per_s = 1e30;  // so that bytes alone count
  OpShape shape;
  shape.batch = shape.heads = 1;
  shape.sequence = shape.head_dim = 8;
  EXPECT_NEAR(StandardAttentionSeconds(model, shape, false, true), 1280e-12, 1e-15);
  EXPECT_NEAR(StandardAttentionSeconds(model, shape, true, true), 1920e-12, 1e-15);
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

#include "sim/cost/kernels/kernel_model.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace foretrain {
namespace {

// 100 multiprocessors without losses, so that expected values can be computed by hand.
KernelModel Ideal() {
  KernelModel model;
  const auto is = [](double value) { return Figure{value, Provenance::kDefault}; };
  model.architecture.sustained_share = is(1);
  model.architecture.sustained_short_share = is(1);
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

// Single kernels of `model`'s device without losses, in all formats.
class IdealKernels {
 public:
  explicit IdealKernels(const KernelModel& model) : profiles_(1) {
    KernelProfile& profile = profiles_.front();
    profile.device = "ideal";
    profile.machine = {model.multiprocessors, model.half_flop_per_s, model.memory_bytes_per_s};
    GemmTerms terms;
    terms.memory_share = 1;
    terms.launch_s = terms.fill_depth = 0;
    terms.whole_waves = 1;
    terms.rate_share = 1;
    profile.products.formats[0] = {terms, {}, {}};
    terms.rate_share = 2;
    profile.products.formats[1] = profile.products.formats[2] = {terms, {}, {}};
    terms.rate_share = 4;
    profile.products.formats[3] = {terms, {}, {}};
    hot_.emplace(DeviceOf(profile), profiles_);
  }
  const KernelForecast& operator*() const { return *hot_; }

 private:
  std::vector<KernelProfile> profiles_;
  std::optional<KernelForecast> hot_;
};

// A product of 2560 x 1280 x 1024 takes 2 m n k / 100e12 s where tiles of 256 x 128 fill the device
// once; half of that in 8 bits, a quarter in 4.
TEST(KernelModel, TakesHotProductsAtTheSustainedShareOfTheirRate) {
  KernelModel model = Ideal();
  const IdealKernels hot(model);
  const ProductShape shape = {2560, 1280, 1024};
  const double full_rate_s = 2.0 * 2560 * 1280 * 1024 / 100e12;
  const auto product = [&](NumberFormat format) {
    return ProductSeconds(model, *hot, format, shape);
  };
  EXPECT_NEAR(product(NumberFormat::kBf16), full_rate_s, 1e-12);
  EXPECT_NEAR(product(NumberFormat::kE4m3), full_rate_s / 2, 1e-12);
  EXPECT_NEAR(product(NumberFormat::kFp8Block), full_rate_s / 2, 1e-12);
  EXPECT_NEAR(product(NumberFormat::kFp4), full_rate_s / 4, 1e-12);
  model.architecture.sustained_share.value = 0.5;
  EXPECT_NEAR(product(NumberFormat::kBf16), 2 * full_rate_s, 1e-12);
}

// Without tensor cores for 8 or 4 bits a product takes as long as in 16 bits.
TEST(KernelModel, ComputesAFormatThatTheDeviceLacksInALongerOne) {
  KernelModel model = Ideal();
  const IdealKernels hot(model);
  model.fp8_flop_per_s = model.fp4_flop_per_s = model.half_flop_per_s;
  const ProductShape shape = {2560, 1280, 1024};
  const double half = ProductSeconds(model, *hot, NumberFormat::kBf16, shape);
  EXPECT_DOUBLE_EQ(ProductSeconds(model, *hot, NumberFormat::kE4m3, shape), half);
  EXPECT_DOUBLE_EQ(ProductSeconds(model, *hot, NumberFormat::kFp4, shape), half);
}

// An unaligned product runs at half the rate; a batch of 100 at a quarter.
TEST(KernelModel, LoadsSizesThatAreNotAlignedAtAShareOfTheRate) {
  const KernelModel model = Ideal();
  const IdealKernels hot(model);
  const auto seconds = [&](std::int64_t n, std::int64_t groups) {
    return ProductSeconds(model, *hot, NumberFormat::kFp16, {64, n, 64, groups});
  };
  EXPECT_NEAR(seconds(63, 1), 2 * seconds(64, 1), 1e-12);
  EXPECT_NEAR(seconds(63, 100), 4 * seconds(64, 100), 1e-12);
}

// s = d = 8, one head, 1 TB/s. Two products move 2 (64 + 2 * 64) bytes each; softmax moves 4 * 64
// and dropout 5 * 64, both at half the rate.
TEST(KernelModel, WritesTheScoresOfStandardAttention) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  model.half_flop_per_s = 1e30;  // so that only bytes count
  const IdealKernels hot(model);
  Op op;
  op.kind = OpKind::kStandardAttentionForward;
  op.shape.batch = op.shape.heads = 1;
  op.shape.sequence = op.shape.inner = op.shape.head_dim = 8;
  EXPECT_NEAR(StandardAttentionSeconds(model, *hot, op), 1280e-12, 1e-15);
  op.dropout = 0.1F;
  EXPECT_NEAR(StandardAttentionSeconds(model, *hot, op), 1920e-12, 1e-15);
  op.shape.inner = 0;  // one product less
  EXPECT_NEAR(StandardAttentionSeconds(model, *hot, op), 1536e-12, 1e-15);
}

// Same as above with values of 16 numbers: QK^T 384 bytes, softmax 512, PV 2 (64 + 2 * 128) = 640.
// Backward: dP and dV 640 bytes each, dQ and dK 384 each, softmax 6 * 64 at half the rate.
TEST(KernelModel, TakesTheWidthOfValuesInStandardAttention) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  model.half_flop_per_s = 1e30;
  const IdealKernels hot(model);
  Op op;
  op.kind = OpKind::kStandardAttentionForward;
  op.shape.batch = op.shape.heads = 1;
  op.shape.sequence = op.shape.inner = op.shape.head_dim = 8;
  op.shape.value_dim = 16;
  EXPECT_NEAR(StandardAttentionSeconds(model, *hot, op), 1536e-12, 1e-15);
  op.kind = OpKind::kStandardAttentionBackward;
  EXPECT_NEAR(StandardAttentionSeconds(model, *hot, op), 2816e-12, 1e-15);
}

// 64 x 64 gradients at 1 TB/s: 2 bytes for the product's output, and a 4-byte sum read and written.
TEST(KernelModel, AddsGradientsBehindTheirProductWhereTheSystemDoes) {
  KernelModel model = Ideal();
  model.memory_bytes_per_s = 1e12;
  const IdealKernels hot(model);
  Op op;
  op.kind = OpKind::kGemm;
  op.format = NumberFormat::kBf16;
  op.formats = {NumberFormat::kBf16, NumberFormat::kBf16, NumberFormat::kFp32, NumberFormat::kFp32};
  op.shape.rows = op.shape.cols = op.shape.inner = 64;
  op.trans_a = true;
  SystemOptions apart;
  apart.fused_accumulation = false;
  const auto seconds = [&](const SystemOptions& system) {
    return KernelSeconds(model, *hot, system, op, 0).value();
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
  EXPECT_EQ(FindArchitecture(*architectures, "RTX5060Ti-16GB")->name, "blackwell-geforce");
  EXPECT_EQ(FindArchitecture(*architectures, "RTXPRO6000-96GB")->name, "blackwell-rtx");
  EXPECT_EQ(FindArchitecture(*architectures, "MI300X-192GB")->name, "cdna3");
  EXPECT_EQ(FindArchitecture(*architectures, "TPUv4-32GB"), nullptr);
}

}  // namespace
}  // namespace foretrain

#include "sim/cost/measured/kernel_forecast.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

constexpr ProductShape kShape = {4096, 4096, 4096};

// A profile whose only kernel is a bf16 product without a fixed cost, with a field of `offset`.
KernelProfile Profile(std::string device, std::string architecture, double peak, double rate_share,
                      double offset = 0) {
  KernelProfile out;
  out.device = std::move(device);
  out.architecture = std::move(architecture);
  out.machine = {.multiprocessors = 100, .half_flop_per_s = peak, .memory_bytes_per_s = 1e13};
  out.memory_bytes = 80e9;
  auto& product = out.products.formats[0].emplace();
  product.terms = {
      .rate_share = rate_share, .launch_s = 1e-12, .fill_depth = 1e-9, .whole_waves = 1e-9};
  product.field = {.anchors = {{}}, .weights = {0}, .reach = 1, .offset = offset};
  return out;
}

double Seconds(const KernelForecast& forecast) {
  const auto seconds = forecast.ProductSeconds(ProductFormat::kBf16, kShape, true);
  EXPECT_TRUE(seconds.has_value());
  return seconds.value_or(0);
}

// 256 tiles of 256 x 256 share 100 multiprocessors: 2 * 4096^3 / (rate_share * peak).
double Expected(double peak, double rate_share) {
  return 2 * std::pow(4096.0, 3) / (rate_share * peak);
}

TEST(KernelForecast, UsesTheDevicesOwnProfileWithItsField) {
  const std::vector<KernelProfile> profiles = {Profile("a", "hopper", 1e15, 0.5, 0.2),
                                               Profile("b", "hopper", 1e15, 0.25)};
  const KernelForecast forecast(DeviceOf(profiles[0]), profiles);
  EXPECT_NEAR(Seconds(forecast) / (Expected(1e15, 0.5) * std::exp(0.2)), 1, 1e-2);
}

// "c" has no profile. Of its architecture, "b" is nearer in peak; its field applies.
TEST(KernelForecast, ScalesTheNearestDeviceOfTheArchitecture) {
  const std::vector<KernelProfile> profiles = {Profile("a", "hopper", 1e15, 0.5),
                                               Profile("b", "hopper", 2e15, 0.25, 0.1),
                                               Profile("x", "ampere", 3e15, 0.9)};
  KernelDevice device = DeviceOf(Profile("c", "hopper", 3e15, 0));
  EXPECT_NEAR(Seconds(KernelForecast(device, profiles)) / (Expected(3e15, 0.25) * std::exp(0.1)), 1,
              1e-2);
  // Without a near one, a related architecture gives its terms, but not its field.
  const std::vector<KernelProfile> other = {Profile("x", "ampere", 3e15, 0.9, 0.3)};
  EXPECT_NEAR(Seconds(KernelForecast(device, other)) / Expected(3e15, 0.9), 1, 1e-2);
}

// The published best products say that the device reaches 0.6 of its peak where the profile's
// device reaches 0.8: the rate is 0.5 * 0.6 / 0.8 of the peak.
TEST(KernelForecast, ScalesByTheBestPublishedProduct) {
  std::vector<KernelProfile> profiles = {Profile("a", "hopper", 1e15, 0.5)};
  profiles[0].best_flop_per_s = 0.8e15;
  KernelDevice device = DeviceOf(Profile("c", "hopper", 2e15, 0));
  device.best_flop_per_s = 1.2e15;
  EXPECT_NEAR(Seconds(KernelForecast(device, profiles)) / Expected(2e15, 0.375), 1, 1e-2);
}

TEST(KernelForecast, LeavesADeviceOut) {
  const std::vector<KernelProfile> profiles = {Profile("a", "hopper", 1e15, 0.5),
                                               Profile("b", "hopper", 1e15, 0.25)};
  const KernelForecast forecast(DeviceOf(profiles[0]), profiles, "a");
  EXPECT_NEAR(Seconds(forecast) / Expected(1e15, 0.25), 1, 1e-2);
}

TEST(KernelForecast, HasNoTimeWithoutAMeasuredFormat) {
  const std::vector<KernelProfile> profiles = {Profile("a", "hopper", 1e15, 0.5)};
  const KernelForecast forecast(DeviceOf(profiles[0]), profiles);
  EXPECT_FALSE(forecast.ProductSeconds(ProductFormat::kFp8, kShape, true).has_value());
  EXPECT_FALSE(forecast.AttentionForwardSeconds({}).has_value());
  EXPECT_FALSE(forecast.ExpertsForwardSeconds(ProductFormat::kBf16, {}).has_value());
  EXPECT_FALSE(forecast.AttentionBackwardSeconds({}).has_value());
}

TEST(KernelForecast, NeedsPeakBandwidthAndMultiprocessors) {
  DeviceSpec device;
  device.bf16_flop_per_s = 1e15;
  device.memory_bytes_per_s = 1e12;
  EXPECT_FALSE(KernelDeviceOf(device, 0, {}).has_value());
  device.multiprocessors = 100;
  EXPECT_TRUE(KernelDeviceOf(device, 0, {}).has_value());
}

// Gathers without a ramp: 4 us + 1 us a hop + the ring's bytes at half of the link rate. Measured
// for two members at 1 MiB and 16 MiB, whose corrections are 0.1 + 0.3 / e and 0.3 + 0.1 / e.
KernelProfile WithCollectives(std::string device, std::string architecture, double link,
                              bool linked = true) {
  KernelProfile out = Profile(std::move(device), std::move(architecture), 1e15, 0.5);
  out.machine.link_bytes_per_s = link;
  out.machine.linked = linked;
  for (auto& kind : out.collectives) {
    CollectiveFit& fit = kind.emplace();
    fit.anchors = {{1 << 20, 2}, {1 << 24, 2}};
    fit.kernel.terms = {.base_s = 4e-6, .hop_s = 1e-6, .link_share = 0.5, .ramp = 0};
    fit.kernel.field = {.anchors = {PointOf(fit.anchors[0]), PointOf(fit.anchors[1])},
                        .weights = {0.1, 0.3},
                        .reach = 4};
  }
  return out;
}

double Gather(const KernelForecast& forecast, double bytes, int members) {
  return forecast.CollectiveSeconds(OpKind::kAllGather, bytes, members).value_or(-1);
}

const double kSmallEnd = std::exp(0.1 + 0.3 / std::exp(1.0));
const double kLargeEnd = std::exp(0.3 + 0.1 / std::exp(1.0));

// 1 MiB: 5 us + 2^19 / 50e9 s. 4 MiB is half of the reach from both sizes.
TEST(CollectiveForecast, InterpolatesTheCorrectionBetweenSizes) {
  const std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9)};
  const KernelForecast forecast(DeviceOf(profiles[0]), profiles);
  EXPECT_NEAR(Gather(forecast, 1 << 20, 2), kSmallEnd * (5e-6 + 524288 / 50e9), 1e-12);
  EXPECT_NEAR(Gather(forecast, 1 << 22, 2), std::exp(0.4 / std::exp(0.5)) * (5e-6 + 2097152 / 50e9),
              1e-12);
  EXPECT_EQ(Gather(forecast, 1e6, 1), 0);
}

// Below the smallest size latency stays; above the largest, the rate.
TEST(CollectiveForecast, EndsKeepLatencyAndRate) {
  const std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9)};
  const KernelForecast forecast(DeviceOf(profiles[0]), profiles);
  EXPECT_NEAR(Gather(forecast, 2, 2), kSmallEnd * 5e-6, 1e-10);
  EXPECT_NEAR(Gather(forecast, 1e12, 2), kLargeEnd * (5e-6 + 0.5e12 / 50e9), 1e-6);
}

// 8 members: 7 hops and 7/8 of the bytes.
TEST(CollectiveForecast, MoreMembersThanMeasuredFollowTheRing) {
  const std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9)};
  const KernelForecast forecast(DeviceOf(profiles[0]), profiles);
  EXPECT_NEAR(Gather(forecast, 1e12, 8), kLargeEnd * (11e-6 + 0.875e12 / 50e9), 1e-6);
}

// A device of the architecture with twice the links: half of the transfer, the same latency.
TEST(CollectiveForecast, ScalesTransfersByPublishedLinks) {
  const std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9),
                                               WithCollectives("x", "ampere", 200e9)};
  const KernelForecast forecast(DeviceOf(WithCollectives("b", "hopper", 200e9)), profiles);
  EXPECT_NEAR(Gather(forecast, 2, 2), kSmallEnd * 5e-6, 1e-10);
  EXPECT_NEAR(Gather(forecast, 1e12, 2), kLargeEnd * (5e-6 + 0.5e12 / 100e9), 1e-6);
}

// Links of another architecture say nothing; PCIe is the same for all, but not its correction.
TEST(CollectiveForecast, NeedsTheSameWires) {
  const std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9),
                                               WithCollectives("p", "ada", 20e9, false)};
  const auto seconds = [&](const KernelProfile& device) {
    return Gather(KernelForecast(DeviceOf(device), profiles), 1e12, 2);
  };
  EXPECT_EQ(seconds(WithCollectives("x", "ampere", 100e9)), -1);
  EXPECT_NEAR(seconds(WithCollectives("y", "ampere", 40e9, false)), 5e-6 + 0.5e12 / 20e9, 1e-6);
  EXPECT_EQ(seconds(WithCollectives("z", "hopper", 0)), -1);
}

TEST(CollectiveForecast, SumsInSwitchesNeedAProfileWithThem) {
  const std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9)};
  KernelDevice device = DeviceOf(profiles[0]);
  device.machine.link_reduces = true;
  const KernelForecast forecast(device, profiles);
  EXPECT_FALSE(forecast.CollectiveSeconds(OpKind::kAllReduce, 1e6, 8).has_value());
  EXPECT_TRUE(forecast.CollectiveSeconds(OpKind::kAllGather, 1e6, 8).has_value());
  EXPECT_FALSE(forecast.CollectiveSeconds(OpKind::kRotate, 1e6, 8).has_value());
}

// Without a correction the forecast is the model with the device's own links.
TEST(ExchangeForecast, TakesTheModelWithTheDevicesLinks) {
  std::vector<KernelProfile> profiles = {WithCollectives("a", "hopper", 100e9)};
  const ExchangeShape shape = {
      .hidden = 4096, .tokens = 4096, .topk = 8, .experts = 64, .multiprocessors = 20};
  profiles[0].exchanges[1].emplace().terms.launch_s = 1e-5;
  const KernelDevice device = DeviceOf(WithCollectives("b", "hopper", 200e9));
  const KernelForecast forecast(device, profiles);
  EXPECT_FALSE(forecast.ExchangeSeconds(ExchangePart::kDispatch, shape).has_value());
  EXPECT_DOUBLE_EQ(forecast.ExchangeSeconds(ExchangePart::kCombine, shape).value_or(0),
                   ExchangeModelSeconds(profiles[0].exchanges[1]->terms, device.machine,
                                        ExchangePart::kCombine, shape));
}

// PCIe without peer access passes each byte twice; a mesh has no single rate.
TEST(KernelForecast, LinkRatesComeFromTheCatalogue) {
  DeviceSpec spec;
  spec.bf16_flop_per_s = 1e15;
  spec.memory_bytes_per_s = 1e12;
  spec.multiprocessors = 100;
  spec.pcie_bytes_per_s = 32e9;
  const auto rate = [&] { return KernelDeviceOf(spec, 0, {})->machine.link_bytes_per_s; };
  EXPECT_EQ(rate(), 32e9);
  spec.peer_access = false;
  EXPECT_EQ(rate(), 16e9);
  spec.link_bytes_per_s = 300e9;
  EXPECT_EQ(rate(), 300e9);
  spec.link_peer_bytes_per_s = 50e9;
  EXPECT_EQ(rate(), 0);
}

}  // namespace
}  // namespace foretrain

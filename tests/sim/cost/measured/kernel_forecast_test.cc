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

}  // namespace
}  // namespace foretrain

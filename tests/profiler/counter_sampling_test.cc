#include "profiler/counter_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A device with two counters of two GPUs; the call named `failing` fails.
struct Device {
  std::string failing;
  std::vector<std::string> calls;
  std::vector<FtCounterSample> samples;
};
Device device;

FtStatus Called(const char* call, char* why, std::size_t n) {
  device.calls.emplace_back(call);
  if (device.failing != call) return FT_OK;
  std::snprintf(why, n, "%s failed", call);
  return FT_FAILED;
}

FtDeviceApi Api() {
  FtDeviceApi api{};
  api.counters_open = [](const std::int32_t* devices, std::int32_t count, std::int64_t interval_ns,
                         char* why, std::size_t n) {
    EXPECT_EQ(count, 2);
    EXPECT_EQ(devices[1], 3);
    EXPECT_EQ(interval_ns, 500);
    return Called("open", why, n);
  };
  api.counters_start = [](char* why, std::size_t n) { return Called("start", why, n); };
  api.counters_stop = [](char* why, std::size_t n) { return Called("stop", why, n); };
  api.counters_drain = [](FtCounterSample* out, std::int64_t capacity, std::int64_t* count,
                          char* why, std::size_t n) {
    *count = std::min<std::int64_t>(capacity, std::ssize(device.samples));
    std::copy_n(device.samples.begin(), *count, out);
    device.samples.erase(device.samples.begin(), device.samples.begin() + *count);
    return Called("drain", why, n);
  };
  return api;
}

struct CounterSamplingTest : testing::Test {
  void SetUp() override { device = {}; }
  CounterOptions Options() {
    return {.devices = {{.device = 0, .rank = 4}, {.device = 3, .rank = 5}},
            .interval_ns = 500,
            .take = [this](std::vector<Counter> more) {
              taken.insert(taken.end(), more.begin(), more.end());
            }};
  }
  const FtDeviceApi api = Api();
  std::vector<Counter> taken;
};

TEST_F(CounterSamplingTest, GivesSamplesTheirRanksAndTheRunsTime) {
  CounterSampling sampling(api, Options(), true);
  sampling.Start();
  // Device 1 was not asked for.
  device.samples = {{1'000, 0.5, "gpu_sm_active_share", 3},
                    {1'000, 0.9, "gpu_sm_active_share", 1},
                    {1'500, 7.0, "gpu_pcie_read_bytes_per_s", 0}};
  sampling.Drain({.host_ns = 100, .device_ns = 0});
  EXPECT_THAT(taken, ElementsAre(Counter{"gpu_sm_active_share", 5, -1, 1'100, 0.5},
                                 Counter{"gpu_pcie_read_bytes_per_s", 4, -1, 1'600, 7.0}));
  EXPECT_EQ(sampling.Problem(), "");
}

TEST_F(CounterSamplingTest, TakesTheRestOnceAfterTheStop) {
  CounterSampling sampling(api, Options(), true);
  sampling.Start();
  sampling.Stop();
  device.samples.assign(40'000, {1, 0.0, "gpu_sm_active_share", 0});
  sampling.Drain({});
  EXPECT_EQ(taken.size(), 40'000U);
  EXPECT_THAT(device.calls, ElementsAre("open", "start", "stop", "drain", "drain", "drain"));
  sampling.Drain({});
  EXPECT_EQ(device.calls.size(), 6U);
}

TEST_F(CounterSamplingTest, EndsWithASentenceAtTheFirstCallThatFails) {
  for (const auto& [call, text] :
       {std::pair("open", "hardware counters are not sampled: open failed"),
        std::pair("start", "hardware counters are not sampled: start failed"),
        std::pair("drain", "hardware counters are sampled no further: drain failed"),
        std::pair("stop", "hardware counters are sampled no further: stop failed")}) {
    device = {};
    device.failing = call;
    CounterSampling sampling(api, Options(), true);
    sampling.Start();
    sampling.Drain({});
    sampling.Stop();
    sampling.Drain({});
    EXPECT_EQ(sampling.Problem(), text);
    EXPECT_EQ(device.calls.back(), call);  // none after it
  }
}

TEST_F(CounterSamplingTest, CallsNothingWithoutDevicesOrRecords) {
  CounterSampling none(api, {}, true);
  none.Start();
  none.Drain({});
  none.Stop();
  EXPECT_EQ(none.Problem(), "");
  EXPECT_EQ(CounterSampling(api, Options(), false).Problem(),
            "hardware counters are not sampled: nor is the device's work recorded");
  EXPECT_EQ(CounterSampling({}, Options(), true).Problem(),
            "hardware counters are not sampled: this device has none");
  EXPECT_THAT(device.calls, IsEmpty());
}

}  // namespace
}  // namespace foretrain

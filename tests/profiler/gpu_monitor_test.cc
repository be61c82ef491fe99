#include "profiler/gpu_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>

#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

MonitorLibraries Fake(const std::string& monitor = "nvml_pair") {
  return {TestPlugin(monitor), TestPlugin("driver_two")};
}

std::map<std::string, double> ByName(const std::vector<Counter>& counters, int rank) {
  std::map<std::string, double> values;
  for (const Counter& counter : counters) {
    if (counter.rank == rank) values[counter.name] = counter.value;
  }
  return values;
}

TEST(GpuMonitor, ReadsEachRanksGpuInBaseUnits) {
  const auto monitor = GpuMonitor::Open(Fake(), {{.rank = 3, .device = 0}});
  ASSERT_TRUE(monitor.has_value()) << monitor.error().message;
  const std::vector<Counter> counters = (*monitor)->Read(77);
  EXPECT_THAT(ByName(counters, 3),
              ElementsAre(Pair("gpu_memory_clock_hz", 2.619e9), Pair("gpu_pcie_generation", 5),
                          Pair("gpu_pcie_width", 16), Pair("gpu_power_w", 699.5),
                          Pair("gpu_sm_clock_hz", 1.41e9), Pair("gpu_temperature_c", 71),
                          Pair("gpu_throttle_reasons", 4)));
  for (const Counter& counter : counters) {
    EXPECT_EQ(counter.time_ns, 77);
    EXPECT_EQ(counter.step, -1);
  }
}

TEST(GpuMonitor, FindsGpusByTheirPlaceAndLeavesOutWhatTheyDoNotTell) {
  const auto monitor =
      GpuMonitor::Open(Fake(), {{.rank = 0, .device = 1}, {.rank = 1, .device = 0}});
  ASSERT_TRUE(monitor.has_value()) << monitor.error().message;
  const std::vector<Counter> counters = (*monitor)->Read(0);
  EXPECT_EQ(ByName(counters, 0).at("gpu_sm_clock_hz"), 1.411e9);
  EXPECT_EQ(ByName(counters, 1).at("gpu_sm_clock_hz"), 1.410e9);
  EXPECT_FALSE(ByName(counters, 0).contains("gpu_power_w"));
  EXPECT_FALSE(ByName(counters, 0).contains("gpu_pcie_width"));
  EXPECT_TRUE(ByName(counters, 1).contains("gpu_power_w"));
}

TEST(GpuMonitor, ReadsAtOnceAndStopsWhenAsked) {
  auto monitor = GpuMonitor::Open(Fake(), {{.rank = 0, .device = 0}});
  ASSERT_TRUE(monitor.has_value());
  std::atomic<int> readings{0};
  (*monitor)->Start([] { return std::int64_t{1}; },
                    [&](std::vector<Counter> counters) {
                      EXPECT_EQ(counters.size(), 7U);
                      ++readings;
                    },
                    /*interval_ns=*/1'000'000);
  while (readings < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  (*monitor)->Stop();
  const int then = readings;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(readings, then);
}

TEST(GpuMonitor, SaysWhyThereIsNone) {
  const auto missing = GpuMonitor::Open({"libno-monitor.so", "libno-driver.so"}, {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(missing.error().message, HasSubstr("libno-monitor.so was not found"));
  const auto other = GpuMonitor::Open({"libc.so.6", "libc.so.6"}, {});
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("has no nvmlInit_v2"));
  const auto failing = GpuMonitor::Open(Fake("nvml_stopped"), {});
  ASSERT_FALSE(failing.has_value());
  EXPECT_THAT(failing.error().message, HasSubstr("Driver Not Loaded"));
  const auto device = GpuMonitor::Open(Fake(), {{.rank = 0, .device = 7}});
  ASSERT_FALSE(device.has_value());
  EXPECT_THAT(device.error().message, HasSubstr("device 7"));
}

}  // namespace
}  // namespace foretrain

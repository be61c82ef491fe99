#include "profiler/gpu_monitor.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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

// A function of the tests' NVML, which is loaded once however often it is opened.
template <class Function>
Function* OfFake(const char* name) {
  void* const library = dlopen(TestPlugin("nvml_pair").c_str(), RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}
void Raise(unsigned long long type, unsigned long long data) {
  OfFake<void(unsigned long long, unsigned long long)>("FakeNvmlRaise")(type, data);
}

TEST(GpuMonitor, ReadsEachRanksGpuInBaseUnits) {
  const auto monitor = GpuMonitor::Open(Fake(), {{.rank = 3, .device = 0}});
  ASSERT_TRUE(monitor.has_value()) << monitor.error().message;
  const std::vector<Counter> counters = (*monitor)->Read(77);
  EXPECT_THAT(
      ByName(counters, 3),
      ElementsAre(Pair("gpu_ecc_corrected", testing::Ge(2)),
                  Pair("gpu_ecc_uncorrected", testing::Ge(0)), Pair("gpu_memory_clock_hz", 2.619e9),
                  Pair("gpu_pcie_generation", 5), Pair("gpu_pcie_width", 16),
                  Pair("gpu_power_w", 699.5), Pair("gpu_sm_clock_hz", 1.41e9),
                  Pair("gpu_temperature_c", 71), Pair("gpu_throttle_reasons", 4)));
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

// The values are fake_nvml.cc's, percentages and MiB/s there. Its GPU counts no fp64 work.
TEST(GpuMonitor, GivesTheActivityBetweenTwoReadings) {
  const auto monitor = GpuMonitor::Open(Fake(), {{.rank = 3, .device = 0}});
  ASSERT_TRUE(monitor.has_value()) << monitor.error().message;
  EXPECT_THAT((*monitor)->ReadActivity(1'000), IsEmpty());
  for (const std::int64_t before_ns : {1'000, 2'000}) {
    const std::vector<Counter> counters = (*monitor)->ReadActivity(before_ns + 1'000);
    EXPECT_THAT(ByName(counters, 3),
                ElementsAre(Pair("gpu_dram_share", 0.7), Pair("gpu_fp16_activity", 0.1),
                            Pair("gpu_fp32_activity", 0.2), Pair("gpu_integer_activity", 0.05),
                            Pair("gpu_nvlink_rx_bytes_per_s", 0x1p31),
                            Pair("gpu_nvlink_tx_bytes_per_s", 0x1p32),
                            Pair("gpu_pcie_rx_bytes_per_s", 0x1p30),
                            Pair("gpu_pcie_tx_bytes_per_s", 0x1p26), Pair("gpu_sm_activity", 0.8),
                            Pair("gpu_sm_occupancy", 0.4), Pair("gpu_tensor_activity", 0.6)));
    for (const Counter& counter : counters) EXPECT_EQ(counter.time_ns, before_ns);
  }
}

TEST(GpuMonitor, GivesUtilizationOfGpusWithoutGpmCounters) {
  const auto monitor =
      GpuMonitor::Open(Fake(), {{.rank = 0, .device = 1}, {.rank = 1, .device = 0}});
  ASSERT_TRUE(monitor.has_value()) << monitor.error().message;
  (void)(*monitor)->ReadActivity(0);
  EXPECT_THAT(ByName((*monitor)->ReadActivity(1), 0), IsEmpty());
  const std::vector<Counter> counters = (*monitor)->Read(0);
  EXPECT_EQ(ByName(counters, 0).at("gpu_busy_share"), 0.37);
  EXPECT_EQ(ByName(counters, 0).at("gpu_memory_busy_share"), 0.12);
  EXPECT_FALSE(ByName(counters, 1).contains("gpu_busy_share"));
  EXPECT_FALSE(ByName(counters, 0).contains("gpu_ecc_corrected"));
}

TEST(GpuMonitor, TakesErrorsOfItsGpusOnce) {
  const auto monitor = GpuMonitor::Open(Fake(), {{.rank = 3, .device = 0}});
  ASSERT_TRUE(monitor.has_value()) << monitor.error().message;
  Raise(/*XID*/ 0x8, 79);
  Raise(0x8, 94);
  Raise(/*double-bit ECC error*/ 0x2, 0);
  const GpuMonitor::Events events = (*monitor)->TakeEvents(50);
  // Two points of one series need two times.
  EXPECT_THAT(events.xids,
              ElementsAre(Counter{"gpu_xid", 3, -1, 50, 79}, Counter{"gpu_xid", 3, -1, 51, 94}));
  EXPECT_TRUE(events.memory_error);
  const GpuMonitor::Events later = (*monitor)->TakeEvents(60);
  EXPECT_THAT(later.xids, IsEmpty());
  EXPECT_FALSE(later.memory_error);
  EXPECT_EQ((*monitor)->BusIdOf(3), "0000:1C:00.0");
  EXPECT_EQ((*monitor)->BusIdOf(0), "");
}

// State is read at readings 0, 2, 4 and at the end; activity at the first four, then with state.
TEST(GpuMonitor, ReadsAtItsPaceUntilItIsStopped) {
  auto monitor = GpuMonitor::Open(Fake(), {{.rank = 0, .device = 0}});
  ASSERT_TRUE(monitor.has_value());
  std::atomic<int> states{0};
  std::vector<std::pair<bool, bool>> taken;  // whether with activity, with state
  std::int64_t time_ns = 0;
  (*monitor)->Start([&] { return ++time_ns; },
                    [&](std::vector<Counter> counters) {
                      const auto values = ByName(counters, 0);
                      const bool state = values.contains("gpu_temperature_c");
                      taken.emplace_back(values.contains("gpu_sm_activity"), state);
                      states += state ? 1 : 0;
                    },
                    {.interval_ns = 1'000'000, .state_every = 2, .fine_readings = 4});
  while (states < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  (*monitor)->Stop();
  const std::size_t then = taken.size();
  ASSERT_GE(then, 7U);
  taken.resize(6);
  EXPECT_THAT(taken, ElementsAre(Pair(false, true), Pair(true, false), Pair(true, true),
                                 Pair(true, false), Pair(true, true), Pair(true, true)));
}

TEST(GpuMonitor, TellsAnErrorThatComesJustBeforeTheEnd) {
  auto monitor = GpuMonitor::Open(Fake(), {{.rank = 0, .device = 0}});
  ASSERT_TRUE(monitor.has_value());
  std::vector<Counter> all;
  std::atomic<bool> begun{false};
  (*monitor)->Start([] { return std::int64_t{1}; },
                    [&](const std::vector<Counter>& counters) {
                      all.insert(all.end(), counters.begin(), counters.end());
                      begun = true;
                    },
                    {.interval_ns = 3'600'000'000'000});
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Raise(0x8, 48);
  Raise(0x2, 0);
  (*monitor)->Stop();
  EXPECT_THAT(all, testing::Contains(Counter{"gpu_xid", 0, -1, 1, 48}));
  std::vector<double> uncorrected;
  for (const Counter& counter : all) {
    if (counter.name == "gpu_ecc_uncorrected") uncorrected.push_back(counter.value);
  }
  ASSERT_EQ(uncorrected.size(), 2U);
  EXPECT_EQ(uncorrected[1], uncorrected[0] + 1);
}

TEST(GpuMonitor, FreesItsSamplesAndEventSets) {
  const auto handles = OfFake<int()>("FakeNvmlHandles");
  ASSERT_NE(handles, nullptr);
  const int before = handles();
  {
    const auto monitor = GpuMonitor::Open(Fake(), {{.rank = 0, .device = 0}});
    ASSERT_TRUE(monitor.has_value());
    EXPECT_EQ(handles(), before + 3);  // two samples and one set
  }
  EXPECT_EQ(handles(), before);
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

// Readings of GPUs over time, as the monitor (profiler/gpu_monitor.h) and the sampling of hardware
// counters (profiler/counter_sampling.h) record them: names, units and means. Leaves out throttling
// (throttling.h) and errors (faults.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/run.h"

namespace foretrain {

// A reading holds until the next one of its series, and the last one as long as the one before it,
// but at most this long: after it the monitor may have been stopped.
inline constexpr std::int64_t kMaxReadingNs = 2'000'000'000;

enum class GpuUnit : std::uint8_t { kShare, kBytesPerSecond, kHertz, kWatt, kCelsius };

struct GpuSeries {
  std::string_view name;   // in the store: "gpu_sm_activity"
  std::string_view title;  // "SM active"
  GpuUnit unit = GpuUnit::kShare;
  bool main = true;  // shown by `analyze` and beneath the lanes of the desktop
};

// The series that are shown, in their order.
std::span<const GpuSeries> AllGpuSeries();

// "83.1 %", "412 GB/s", "1.98 GHz", "699 W", "71.0 C".
std::string FormatReading(GpuUnit unit, double value);

struct GpuReading {
  std::int64_t time_ns = 0;
  double value = 0;
};

// One series of one rank's GPU.
struct GpuCounter {
  int rank = 0;
  GpuSeries series{};
  std::vector<GpuReading> readings{};  // by time; not empty
  double highest = 0;                  // of the values, at least 0

  // End of the time for which readings[i] holds.
  std::int64_t EndOf(std::size_t i) const;
  // Index of the reading that holds at `time_ns`; `nullopt` if there is none. O(log n).
  std::optional<std::size_t> At(double time_ns) const;
  // Mean over the part of [start_ns, end_ns) that readings cover; `nullopt` if they cover none.
  // O(log n + readings inside).
  std::optional<double> Mean(std::int64_t start_ns, std::int64_t end_ns) const;
};

// The shown series in `counters`, by rank, then in the order of AllGpuSeries. Values that are not
// finite are left out. O(n log n).
std::vector<GpuCounter> GpuCountersOf(std::span<const Counter> counters);

// Mean of one series over one step of its rank.
struct GpuMean {
  int rank = 0;
  GpuSeries series{};
  double mean = 0;
};

// Means over the windows of `step`, in the order of `counters`. A rank without a window or without
// readings in it has none.
std::vector<GpuMean> GpuMeansOf(std::span<const GpuCounter> counters,
                                std::span<const StepWindow> windows, std::int32_t step);

}  // namespace foretrain

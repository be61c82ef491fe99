#include "traces/metrics/gpu/counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/units.h"
#include "traces/metrics/gpu/throttling.h"

namespace foretrain {
namespace {

// 1 while any reason of throttling.h holds, else 0: the reasons themselves are bits.
constexpr std::string_view kThrottledSeries = "gpu_throttled_share";

constexpr std::array kSeries{
    GpuSeries{"gpu_sm_activity", "SM active"},
    GpuSeries{"gpu_tensor_activity", "tensor active"},
    GpuSeries{"gpu_dram_share", "DRAM"},
    GpuSeries{"gpu_busy_share", "GPU busy"},
    GpuSeries{"gpu_memory_busy_share", "memory busy"},
    GpuSeries{"gpu_nvlink_tx_bytes_per_s", "NVLink out", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_nvlink_rx_bytes_per_s", "NVLink in", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_pcie_tx_bytes_per_s", "PCIe out", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_pcie_rx_bytes_per_s", "PCIe in", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_sm_active_share", "SM cycles"},
    GpuSeries{"gpu_sm_issue_share", "SM issue"},
    GpuSeries{"gpu_tensor_active_share", "tensor cycles"},
    GpuSeries{"gpu_dram_read_share", "DRAM read"},
    GpuSeries{"gpu_dram_write_share", "DRAM write"},
    GpuSeries{"gpu_nvlink_sent_bytes_per_s", "NVLink sent", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_nvlink_received_bytes_per_s", "NVLink recv", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_pcie_read_bytes_per_s", "PCIe read", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_pcie_write_bytes_per_s", "PCIe write", GpuUnit::kBytesPerSecond},
    GpuSeries{"gpu_sm_clock_hz", "SM clock", GpuUnit::kHertz},
    GpuSeries{"gpu_power_w", "power", GpuUnit::kWatt},
    GpuSeries{kThrottledSeries, "throttled"},
    GpuSeries{"gpu_sm_occupancy", "SM occupancy", GpuUnit::kShare, false},
    GpuSeries{"gpu_fp16_activity", "fp16 active", GpuUnit::kShare, false},
    GpuSeries{"gpu_fp32_activity", "fp32 active", GpuUnit::kShare, false},
    GpuSeries{"gpu_fp64_activity", "fp64 active", GpuUnit::kShare, false},
    GpuSeries{"gpu_integer_activity", "integer active", GpuUnit::kShare, false},
    GpuSeries{"gpu_memory_clock_hz", "memory clock", GpuUnit::kHertz, false},
    GpuSeries{"gpu_temperature_c", "temperature", GpuUnit::kCelsius, false},
};

}  // namespace

std::span<const GpuSeries> AllGpuSeries() { return kSeries; }

std::string FormatReading(GpuUnit unit, double value) {
  switch (unit) {
    case GpuUnit::kShare:
      return FormatPercent(value);
    case GpuUnit::kBytesPerSecond:
      return FormatSi(value, "B/s");
    case GpuUnit::kHertz:
      return FormatSi(value, "Hz");
    case GpuUnit::kWatt:
      return FormatSi(value, "W");
    case GpuUnit::kCelsius:
      break;
  }
  return FormatSi(value, "C");
}

std::int64_t GpuCounter::EndOf(std::size_t i) const {
  const auto time = [this](std::size_t at) { return readings[at].time_ns; };
  std::int64_t length = kMaxReadingNs;
  if (i + 1 < readings.size()) {
    length = time(i + 1) - time(i);
  } else if (i > 0) {
    length = time(i) - time(i - 1);
  }
  return time(i) + std::min(length, kMaxReadingNs);
}

std::optional<std::size_t> GpuCounter::At(double time_ns) const {
  const auto after =
      std::partition_point(readings.begin(), readings.end(), [time_ns](const GpuReading& reading) {
        return static_cast<double>(reading.time_ns) <= time_ns;
      });
  if (after == readings.begin()) return std::nullopt;
  const auto i = static_cast<std::size_t>(after - readings.begin()) - 1;
  if (time_ns >= static_cast<double>(EndOf(i))) return std::nullopt;
  return i;
}

// Each reading weighs as much as the time for which it holds inside the window.
std::optional<double> GpuCounter::Mean(std::int64_t start_ns, std::int64_t end_ns) const {
  double covered = 0, sum = 0;
  const auto first =
      std::partition_point(readings.begin(), readings.end(), [start_ns](const GpuReading& reading) {
        return reading.time_ns + kMaxReadingNs <= start_ns;
      });
  for (auto i = static_cast<std::size_t>(first - readings.begin());
       i < readings.size() && readings[i].time_ns < end_ns; ++i) {
    const std::int64_t length =
        std::min(end_ns, EndOf(i)) - std::max(start_ns, readings[i].time_ns);
    if (length <= 0) continue;
    covered += static_cast<double>(length);
    sum += static_cast<double>(length) * readings[i].value;
  }
  if (covered <= 0) return std::nullopt;
  return sum / covered;
}

// Grouped by rank and place in the table of series, which is the order of the result.
std::vector<GpuCounter> GpuCountersOf(std::span<const Counter> counters) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < kSeries.size(); ++i) places[kSeries[i].name] = i;
  const std::size_t throttled = places.extract(kThrottledSeries).mapped();
  places[kThrottleCounter] = throttled;
  std::map<std::pair<int, std::size_t>, std::vector<GpuReading>> groups;
  for (const Counter& counter : counters) {
    const auto place = places.find(counter.name);
    if (place == places.end() || !std::isfinite(counter.value)) continue;
    const double value =
        place->second == throttled ? (IsThrottled(counter.value) ? 1.0 : 0.0) : counter.value;
    groups[{counter.rank, place->second}].push_back({counter.time_ns, value});
  }
  std::vector<GpuCounter> out;
  for (auto& [key, readings] : groups) {
    std::stable_sort(
        readings.begin(), readings.end(),
        [](const GpuReading& a, const GpuReading& b) { return a.time_ns < b.time_ns; });
    double highest = 0;
    for (const GpuReading& reading : readings) highest = std::max(highest, reading.value);
    out.push_back({key.first, kSeries[key.second], std::move(readings), highest});
  }
  return out;
}

std::vector<GpuMean> GpuMeansOf(std::span<const GpuCounter> counters,
                                std::span<const StepWindow> windows, std::int32_t step) {
  std::vector<GpuMean> means;
  for (const GpuCounter& counter : counters) {
    const auto window = std::find_if(windows.begin(), windows.end(), [&](const StepWindow& at) {
      return at.step == step && at.rank == counter.rank;
    });
    if (window == windows.end()) continue;
    const std::optional<double> mean = counter.Mean(window->start_ns, window->end_ns);
    if (mean) means.push_back({counter.rank, counter.series, *mean});
  }
  return means;
}

}  // namespace foretrain

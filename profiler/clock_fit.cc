#include "profiler/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace foretrain {
namespace {

// Keeps readings at most twice as wide as the narrowest. Halving avoids overflow of the doubled
// width.
std::vector<ClockSample> Narrow(std::span<const ClockSample> samples) {
  const auto width = [](const ClockSample& a, const ClockSample& b) {
    return a.width_ns < b.width_ns;
  };
  const std::int64_t min = std::min_element(samples.begin(), samples.end(), width)->width_ns;
  std::vector<ClockSample> narrow;
  for (const ClockSample& sample : samples) {
    if (sample.width_ns / 2 <= min) narrow.push_back(sample);
  }
  return narrow;
}

}  // namespace

std::int64_t ClockFit::ToHost(std::int64_t device_time_ns) const {
  // Differences are small even where times are large, so a double is exact to the nanosecond.
  const auto since = static_cast<double>(device_time_ns - device_ns);
  return host_ns + static_cast<std::int64_t>(std::llround(since * rate));
}

// Sums are taken relative to the first sample: nanoseconds since boot squared would not fit a
// double.
ClockFit FitClock(std::span<const ClockSample> samples, std::int64_t min_spread_ns) {
  ClockFit fit;
  if (samples.empty()) return fit;
  const std::vector<ClockSample> used = Narrow(samples);
  fit.host_ns = used.front().host_ns;
  fit.device_ns = used.front().device_ns;
  const auto count = static_cast<double>(used.size());
  double mean_device = 0, mean_host = 0;
  std::int64_t min = fit.device_ns, max = fit.device_ns;
  for (const ClockSample& sample : used) {
    mean_device += static_cast<double>(sample.device_ns - fit.device_ns) / count;
    mean_host += static_cast<double>(sample.host_ns - fit.host_ns) / count;
    min = std::min(min, sample.device_ns);
    max = std::max(max, sample.device_ns);
  }
  if (max - min >= min_spread_ns) {
    double together = 0, alone = 0;
    for (const ClockSample& sample : used) {
      const double x = static_cast<double>(sample.device_ns - fit.device_ns) - mean_device;
      together += x * (static_cast<double>(sample.host_ns - fit.host_ns) - mean_host);
      alone += x * x;
    }
    fit.rate = together / alone;
  }
  fit.host_ns += static_cast<std::int64_t>(std::llround(mean_host - fit.rate * mean_device));
  for (const ClockSample& sample : used) {
    const std::int64_t off = std::abs(fit.ToHost(sample.device_ns) - sample.host_ns);
    fit.error_ns = std::max(fit.error_ns, off + (sample.width_ns + 1) / 2);
  }
  return fit;
}

}  // namespace foretrain

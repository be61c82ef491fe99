#include "traces/metrics/stored_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "base/units.h"

namespace foretrain {
namespace {

constexpr double kMaxBytes = 9e15;  // beyond this a double cannot hold every whole number of bytes

// Sets the field of `step` called `name`; false if there is no such field.
bool SetOfStep(std::string_view name, double value, StepMetrics& step) {
  const std::map<std::string_view, std::optional<double> StepMetrics::*> ratios{
      {"tokens_per_s", &StepMetrics::tokens_per_s},
      {"mfu", &StepMetrics::mfu},
      {"hfu", &StepMetrics::hfu},
      {"bubble", &StepMetrics::bubble},
      {"bubble_overhead", &StepMetrics::bubble_overhead},
      {"overlap", &StepMetrics::overlap},
  };
  const std::map<std::string_view, double ClassSeconds::*> seconds{
      {"window_s", &ClassSeconds::window_s},
      {"compute_s", &ClassSeconds::compute_s},
      {"exposed_communication_s", &ClassSeconds::exposed_communication_s},
      {"exposed_copy_s", &ClassSeconds::exposed_copy_s},
      {"host_s", &ClassSeconds::host_s},
      {"idle_s", &ClassSeconds::idle_s},
      {"dependency_wait_s", &ClassSeconds::dependency_wait_s},
      {"peer_wait_s", &ClassSeconds::peer_wait_s},
      {"host_wait_s", &ClassSeconds::host_wait_s},
      {"drain_s", &ClassSeconds::drain_s},
  };
  if (const auto at = ratios.find(name); at != ratios.end()) {
    step.*(at->second) = value;
    return true;
  }
  if (const auto at = seconds.find(name); at != seconds.end()) {
    step.classes.*(at->second) = value;
    return true;
  }
  return false;
}

// Reads "peak_SPACE_bytes" and "peak_SPACE_CATEGORY_bytes" of a rank; other names are ignored.
// Values come from a file: those that are no number of bytes are ignored too.
void AddToPeak(const MetricValue& value, std::map<std::pair<int, Space>, MemoryPeak>& peaks) {
  constexpr std::string_view kBegin = "peak_", kEnd = "_bytes";
  std::string_view name = value.name;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return;
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  const std::size_t under = name.find('_');
  const auto space = ParseSpace(name.substr(0, under));
  if (!space.has_value() || !(value.value >= 0.0 && value.value <= kMaxBytes)) return;
  MemoryPeak& peak = peaks[{value.rank, *space}];
  peak.rank = value.rank;
  peak.space = *space;
  const auto bytes = static_cast<std::int64_t>(std::llround(value.value));
  if (under == std::string_view::npos) {
    peak.bytes = bytes;
  } else if (const auto category = ParseCategory(name.substr(under + 1))) {
    peak.parts[static_cast<std::size_t>(*category)] = bytes;
  }
}

// Steps and their times come from the windows, not from stored metrics: the file need not agree
// with itself.
std::vector<StepMetrics> StepsOf(std::span<const StepWindow> windows,
                                 const MetricOptions& options) {
  std::map<std::int32_t, std::int64_t> longest;
  for (const StepWindow& window : windows) {
    std::int64_t& max = longest[window.step];
    max = std::max(max, window.end_ns - window.start_ns);
  }
  std::vector<StepMetrics> steps;
  for (const auto& [step, length_ns] : longest) {
    steps.push_back({.step = step, .time_s = SecondsFromNs(length_ns)});
  }
  const auto warmup = static_cast<std::size_t>(std::max(0, options.warmup_steps));
  // As in a computed run: warm-up steps count if there are no others.
  for (std::size_t i = 0; warmup < steps.size() && i < warmup; ++i) steps[i].counted = false;
  return steps;
}

// The counted step with the lower median time; at least one step is counted. With an even number of
// steps it is the faster of the two in the middle.
const StepMetrics& MiddleOf(const std::vector<StepMetrics>& steps) {
  std::vector<const StepMetrics*> counted;
  for (const StepMetrics& step : steps) {
    if (step.counted) counted.push_back(&step);
  }
  std::sort(counted.begin(), counted.end(), [](const StepMetrics* a, const StepMetrics* b) {
    return std::tie(a->time_s, a->step) < std::tie(b->time_s, b->step);
  });
  return *counted[(counted.size() - 1) / 2];
}

}  // namespace

// Values of steps without a window are ignored. `overall` starts from the step with the median time
// and is then overwritten by the stored overall metrics.
Metrics MetricsFromStored(std::span<const MetricValue> values, std::span<const StepWindow> windows,
                          const MetricOptions& options) {
  Metrics metrics;
  metrics.steps = StepsOf(windows, options);
  std::map<std::pair<int, Space>, MemoryPeak> peaks;
  for (const MetricValue& value : values) {
    if (!std::isfinite(value.value)) continue;
    if (value.rank >= 0 && value.step == -1) AddToPeak(value, peaks);
    if (value.rank != -1 || value.step == -1) continue;
    const auto at = std::lower_bound(
        metrics.steps.begin(), metrics.steps.end(), value.step,
        [](const StepMetrics& step, std::int32_t wanted) { return step.step < wanted; });
    if (at != metrics.steps.end() && at->step == value.step) {
      SetOfStep(value.name, value.value, *at);
    }
  }
  for (const auto& [place, peak] : peaks) {
    metrics.memory.push_back(peak);
    std::int64_t& max = metrics.peak_bytes[static_cast<std::size_t>(peak.space)];
    max = std::max(max, peak.bytes);
  }
  if (metrics.steps.empty()) return metrics;
  std::vector<double> times;
  for (const StepMetrics& step : metrics.steps) {
    if (step.counted) times.push_back(step.time_s);
  }
  metrics.step_time_s = StatisticsOf(times);
  metrics.overall = MiddleOf(metrics.steps);
  metrics.overall->time_s = metrics.step_time_s.median;
  for (const MetricValue& value : values) {
    if (value.rank != -1 || value.step != -1 || !std::isfinite(value.value)) continue;
    if (SetOfStep(value.name, value.value, *metrics.overall)) continue;
    if (value.name == "coverage") metrics.coverage = value.value;
  }
  return metrics;
}

}  // namespace foretrain

// Restores a run's metrics from its stored values, for runs whose spans are not all in memory.
// Single ranks in single steps and bubbles of single pipelines are not stored and stay empty.
#pragma once

#include <span>

#include "traces/metrics/metrics.h"

namespace foretrain {

// The inverse of Flatten for the metrics that it writes.
//
//   values   metrics of one run, in any order; unknown names are ignored
//   windows  all step windows of the run; steps and their times come from these
//   options  as for ComputeMetrics; `pipelines` are not used
//
// A missing metric leaves its field without a value, or 0. O(n log n).
Metrics MetricsFromStored(std::span<const MetricValue> values, std::span<const StepWindow> windows,
                          const MetricOptions& options);

}  // namespace foretrain

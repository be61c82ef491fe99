// The metrics of a run from the figures that were stored with it, for runs whose spans are not all
// in memory. Leaves out what no figure says: single ranks in single steps, bubbles of single
// pipelines.
#pragma once

#include <span>

#include "traces/metrics/metrics.h"

namespace foretrain {

// The inverse of Flatten, as far as that goes.
//
//   figures  of one run, in any order; names that Flatten does not give are left out
//   windows  all step windows of the run: the steps and their times come from these
//   options  of the run, as ComputeMetrics takes them; `pipelines` are not used
//
// Where figures are missing, what they would say has no value, or 0. O(n log n).
Metrics MetricsOfFigures(std::span<const MetricValue> figures, std::span<const StepWindow> windows,
                         const MetricOptions& options);

}  // namespace foretrain

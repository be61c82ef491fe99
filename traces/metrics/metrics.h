// All metrics of a run, computed from its timeline alone, by the same arithmetic for a forecast and
// a measurement. Comparing runs and the critical path need a program: sim/compare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/metrics/bubble.h"
#include "traces/metrics/classes.h"
#include "traces/metrics/idle.h"
#include "traces/metrics/memory.h"
#include "traces/metrics/statistics.h"
#include "traces/timeline.h"

namespace foretrain {

// Facts that a timeline does not hold. Metrics that need a value left at 0 are absent.
struct MetricOptions {
  std::vector<Pipeline> pipelines{};  // none: no bubbles; see PipelinesOf
  bool asynchronous = false;          // BubbleOptions::asynchronous
  int warmup_steps = 0;               // first steps left out of medians, if others remain
  double tokens_per_step = 0.0;       // of the whole job
  double model_flops_per_step = 0.0;
  double hardware_flops_per_step = 0.0;  // including recomputation
  double peak_flop_per_s = 0.0;          // of all devices of the job together
};

// One rank in one step. Everything that runs in the step's window counts, cut to the window, even
// if it serves another step.
struct RankStep {
  int rank = 0;
  std::int32_t step = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  ClassTimes classes{};                                    // sum to the window
  std::array<std::int64_t, kOpClassCount> exclusive_ns{};  // RankClasses::ExclusiveIn
  std::array<std::int64_t, kOpClassCount> busy_ns{};       // RankClasses::BusyIn
  std::int64_t communication_ns = 0;                       // union of all communication
  std::int64_t hidden_communication_ns = 0;                // the part that overlaps with compute
  std::optional<double> overlap{};                         // their ratio
  IdleCauses idle{};                                       // sum to host_ns + idle_ns
};

// Means over ranks of the seconds in each class; they sum to `window_s` up to rounding.
struct ClassSeconds {
  double window_s = 0.0;
  double compute_s = 0.0;
  double exposed_communication_s = 0.0;
  double exposed_copy_s = 0.0;
  double host_s = 0.0;
  double idle_s = 0.0;
  double dependency_wait_s = 0.0;  // these four split host_s + idle_s by cause
  double peer_wait_s = 0.0;
  double host_wait_s = 0.0;
  double drain_s = 0.0;
};

// One step over all ranks.
struct StepMetrics {
  std::int32_t step = 0;
  bool counted = true;  // included in medians
  double time_s = 0.0;  // the longest window of any rank
  std::optional<double> tokens_per_s{};
  std::optional<double> mfu{};
  std::optional<double> hfu{};
  std::optional<double> bubble{};           // mean over pipelines
  std::optional<double> bubble_overhead{};  // mean over pipelines
  std::optional<double> overlap{};          // hidden / all communication, summed over ranks
  ClassSeconds classes{};
};

struct Metrics {
  std::vector<RankStep> rank_steps{};     // sorted by (step, rank)
  std::vector<StepMetrics> steps{};       // sorted by step
  std::vector<PipelineBubble> bubbles{};  // sorted by (pipeline, step)
  std::vector<MemoryPeak> memory{};       // sorted by (rank, space, step)
  Statistics step_time_s;                 // of the counted steps
  double coverage = 1.0;                  // share of device time with an op id

  // Summary of the run. time_s and the ratios are medians over the counted steps; throughput and
  // utilization follow from the median time. `classes` and `step` are those of the counted step
  // with the median time (the lower of the middle two), so that classes still sum. `nullopt`
  // without step windows.
  std::optional<StepMetrics> overall{};

  // Largest peak of any rank over the whole timeline, by space.
  std::array<std::int64_t, kSpaceCount> peak_bytes{};
};

// One metric of a run. rank -1: all ranks; step -1: the whole run.
struct MetricValue {
  int rank = -1;
  std::int32_t step = -1;
  std::string name{};
  double value = 0.0;

  bool operator==(const MetricValue&) const = default;
};

// Metrics of a sorted timeline whose ranks have step windows (DeriveSteps adds missing ones). At
// least a million spans a second, O(n log n). Safe from any thread.
Metrics ComputeMetrics(const Timeline& timeline, const MetricOptions& options = {});

// As ComputeMetrics for a timeline that arrives in parts: a long run needs the memory of one part
// and some 200 bytes a step. One thread.
class MetricsInParts {
 public:
  explicit MetricsInParts(MetricOptions options) : options_(std::move(options)) {}

  // Adds the steps whose windows are in `part`; they come after the steps of earlier parts.
  //
  //   part  sorted; holds the spans of its steps and whatever else runs in their windows; its
  //         memory samples give what is live at its start
  //
  // Returns the metrics of these steps, as Flatten does.
  std::vector<MetricValue> Add(const Timeline& part);

  // Metrics over all parts. rank_steps, bubbles and memory of single steps are left empty.
  // `counted` is valid only here, since warm-up depends on the number of steps.
  Metrics Take();

 private:
  MetricOptions options_;
  Metrics metrics_;
  double device_ns_ = 0.0;  // for the coverage: time of all device spans
  double known_ns_ = 0.0;   // time of those with an op id
};

// Adds a window for each rank and step to a timeline without windows: from the start of the first
// span that serves the step to the end of the last. Does nothing if windows exist.
void DeriveSteps(Timeline& timeline);

// The overall metrics, those of each step, and each rank's peaks, under the names in docs/store.md.
// Metrics without a value are left out, and so are the steps if `steps` is false.
std::vector<MetricValue> Flatten(const Metrics& metrics, bool steps = true);

}  // namespace foretrain

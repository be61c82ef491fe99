// Everything a run is judged by, computed from its timeline alone: the same arithmetic for a
// forecast and for a measurement. Leaves out comparing two runs and the critical path, which take a
// program (sim/compare).
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

// What a timeline does not say. Figures left at 0 leave what needs them without a value.
struct MetricOptions {
  std::vector<Pipeline> pipelines{};  // none: no bubbles; PipelinesOf makes them
  bool asynchronous = false;          // BubbleOptions::asynchronous
  int warmup_steps = 0;               // first steps that medians leave out, where others remain
  double tokens_per_step = 0.0;       // of the whole job
  double model_flops_per_step = 0.0;
  double hardware_flops_per_step = 0.0;  // with recomputation
  double peak_flop_per_s = 0.0;          // of all devices of the job together
};

// One rank in one step: the window is its StepWindow, and whatever runs in it counts, cut to it,
// also where it serves the step before or after.
struct RankStep {
  int rank = 0;
  std::int32_t step = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  ClassTimes classes{};                                    // sum to the window
  std::array<std::int64_t, kOpClassCount> exclusive_ns{};  // RankClasses::ExclusiveIn
  std::array<std::int64_t, kOpClassCount> busy_ns{};       // RankClasses::BusyIn
  std::int64_t communication_ns = 0;                       // union of all communication
  std::int64_t hidden_communication_ns = 0;                // the part of it beside compute
  std::optional<double> overlap{};                         // their ratio
  IdleCauses idle{};                                       // sum to host_ns + idle_ns
};

// Means over ranks of the seconds in each class; they sum to `window_s` but for rounding.
struct ClassSeconds {
  double window_s = 0.0;
  double compute_s = 0.0;
  double exposed_communication_s = 0.0;
  double exposed_copy_s = 0.0;
  double host_s = 0.0;
  double idle_s = 0.0;
  double dependency_wait_s = 0.0;  // these four are host_s + idle_s by cause
  double peer_wait_s = 0.0;
  double host_wait_s = 0.0;
  double drain_s = 0.0;
};

// One step over all ranks.
struct StepMetrics {
  std::int32_t step = 0;
  bool counted = true;  // enters the medians
  double time_s = 0.0;  // the longest window of any rank
  std::optional<double> tokens_per_s{};
  std::optional<double> mfu{};
  std::optional<double> hfu{};
  std::optional<double> bubble{};           // mean over pipelines
  std::optional<double> bubble_overhead{};  // mean over pipelines
  std::optional<double> overlap{};          // hidden over all communication, summed over ranks
  ClassSeconds classes{};
};

struct Metrics {
  std::vector<RankStep> rank_steps{};     // sorted by (step, rank)
  std::vector<StepMetrics> steps{};       // sorted by step
  std::vector<PipelineBubble> bubbles{};  // sorted by (pipeline, step)
  std::vector<MemoryPeak> memory{};       // sorted by (rank, space, step)
  Statistics step_time_s;                 // of the counted steps
  double coverage = 1.0;                  // share of device time that carries an op id

  // The run in one line: time_s and the ratios are medians over the counted steps, throughput and
  // utilisation are those of the median time, and `classes` are those of the counted step whose
  // time is the median (the lower of the middle two), so that they still sum. `step` is that step.
  // Nothing where there are no step windows.
  std::optional<StepMetrics> overall{};

  // Largest peak of any rank over the whole timeline, by space.
  std::array<std::int64_t, kSpaceCount> peak_bytes{};
};

// One figure of a run. rank -1: of all ranks; step -1: of the whole run.
struct MetricValue {
  int rank = -1;
  std::int32_t step = -1;
  std::string name{};
  double value = 0.0;

  bool operator==(const MetricValue&) const = default;
};

// Metrics of a sorted timeline whose ranks have step windows (DeriveSteps makes them where a
// recorder did not).
//
// O(n log n); at least a million spans a second. Safe from any thread.
Metrics ComputeMetrics(const Timeline& timeline, const MetricOptions& options = {});

// The same for a timeline that comes in parts, so that the figures of a long run take the memory of
// one part and some 200 bytes a step. One thread.
class MetricsInParts {
 public:
  explicit MetricsInParts(MetricOptions options) : options_(std::move(options)) {}

  // Takes the steps of which `part` has windows: later ones than those of the parts before.
  //
  //   part  sorted; its spans are those of its steps and whatever else runs in their windows; its
  //         memory samples say what is live at its start
  //
  // Returns the figures of these steps, as Flatten has them.
  std::vector<MetricValue> Add(const Timeline& part);

  // What ComputeMetrics says of all parts together, but for rank_steps, bubbles and the memory of
  // single steps, which are left empty. `counted` is right only here.
  Metrics Take();

 private:
  MetricOptions options_;
  Metrics metrics_;
  double device_ns_ = 0.0;  // for the coverage: of all spans but the host's
  double known_ns_ = 0.0;   // of those with an op id
};

// Gives a timeline without step windows one per rank and step: from the start of the first span
// that serves the step to the end of the last. Leaves one that has windows as it is.
void DeriveSteps(Timeline& timeline);

// The overall figures, those of each step, and each rank's peaks, under the names that
// docs/store.md lists. Figures without a value are left out, and the steps where `steps` is false.
std::vector<MetricValue> Flatten(const Metrics& metrics, bool steps = true);

}  // namespace foretrain

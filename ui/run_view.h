// A run as the views take it: its timeline, and the facts that a timeline lacks. Leaves out where
// runs are stored; the program fills this in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/compare/structure/pair_by_structure.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/profile/device_profile.h"
#include "traces/kernels/kernel_table.h"
#include "traces/metrics/gpu/counters.h"
#include "traces/metrics/metrics.h"
#include "traces/metrics/skew.h"
#include "traces/span_sums.h"
#include "traces/timeline.h"

namespace foretrain {

// Part of a run's own time: [start_ns, end_ns).
struct Stretch {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  bool operator==(const Stretch&) const = default;
};

// What a run executed, and on which machine, as stored with it.
struct RunSetting {
  ModelSpec model{};
  ClusterSpec cluster{};
  DeviceProfile profile{};  // its rates when the run was recorded or forecast
  Plan plan{};
};

// One run, predicted or measured. A field that is empty or 0 is unknown, and views leave out what
// depends on it.
struct RunView {
  Timeline timeline{};      // sorted by SortTimeline, with step windows (DeriveSteps)
  std::string model{};      // "gpt2-124m"
  std::string label{};      // "run 7: gpt2-124m dp2 pp2", shown as it is
  MetricOptions metrics{};  // tokens and flops of a step, pipelines, warm-up steps
  int layers = 0;           // decoder layers, for names

  // [rank]: the rank of this timeline whose spans stand for it. A simulation holds one rank a
  // class. Empty: every rank stands for itself.
  std::vector<int> stands_for_rank{};

  std::shared_ptr<const RunSetting> setting{};  // null if it is unknown, as of a trace

  CommunicationGroups groups{};  // which ranks communicate with one another

  // How well the kernels of an imported trace paired with the ops of its forecast, whose ids they
  // then have.
  std::optional<StructuralPairs> structure{};

  std::string program_hash{};                    // runs of equal programs pair op by op
  std::optional<std::int64_t> device_bytes{};    // memory of one device
  bool is_measurement = false;                   // recorded or imported, not forecast
  bool emulated = false;                         // times are not those of the named cluster
  KernelTable kernels{};                         // of the device's recording
  std::int64_t dropped = 0;                      // records the profiler lost
  std::int64_t invalid = 0;                      // records it could not use
  std::optional<std::int64_t> clock_error_ns{};  // between the clocks of two ranks
  std::optional<double> overhead{};              // of recording, as a share of the step

  // Readings of the ranks' GPUs, of the whole run, by rank. Null: none were recorded. Shared by the
  // views of a run as more of it is read.
  std::shared_ptr<const std::vector<GpuCounter>> gpu_counters{};

  // Set for a long run, which is not read whole: `sums` covers all its spans. `timeline` then has
  // all step windows, but spans and memory samples only within `loaded`; `stored_metrics` are the
  // stored metrics of the whole run. If `sums` is null, `timeline` holds everything, and the other
  // two are empty.
  std::shared_ptr<const SpanSums> sums{};  // shared by the views of a run as more of it is read
  std::vector<Stretch> loaded{};           // by time; no two touch
  std::vector<MetricValue> stored_metrics{};

  // Whether all spans of [start_ns, end_ns) are in `timeline`.
  bool IsLoaded(double start_ns, double end_ns) const;
};

// Either run may be missing. The view then shows the other one alone.
struct CompareInput {
  std::optional<RunView> predicted{};
  std::optional<RunView> measured{};
};

}  // namespace foretrain

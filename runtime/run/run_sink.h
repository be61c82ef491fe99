// Interface to listeners of a run: the store, a progress bar, tests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiler/capture_report.h"
#include "traces/run.h"
#include "traces/timeline.h"

namespace foretrain {

// Scalars read by one rank's HostRead.
struct StepScalars {
  std::int64_t step = 0;
  std::int64_t time_ns = 0;  // on the run's clock
  int rank = 0;
  std::optional<float> loss;          // mean over the tokens of the global batch
  std::optional<float> squared_norm;  // of the whole gradient, before clipping
  std::optional<float> loss_scale;    // of this step, if it is dynamic
  bool skipped = false;               // its update was left out for a spike of the loss
};

// Numbers of (token, expert) pairs by one router, as read by a rank's host, for each member of its
// expert-parallel group: [members, pieces, experts] (docs/program.md).
struct RoutedCounts {
  std::int64_t step = 0;
  int rank = 0;
  int block = 0;
  int micro_batch = 0;
  std::string router;  // of the block's router (RouterOf in sim/program/ir/row_counts.h)
  std::vector<std::int32_t> counts;
};

// One step of the whole job, computed from its ranks' StepScalars.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0.0;
  std::optional<double> gradient_norm;
  double learning_rate = 0.0;
  double seconds = 0.0;  // since the previous report; for the first: since the ranks began
  double tokens_per_s = 0.0;
  std::int64_t resident_bytes = 0;  // of the process
  // Its threads waited for a core, divided by its ranks (runtime/device/core_wait.h).
  std::optional<double> core_wait_s;
  std::optional<double> usual_loss;  // if the loss is a spike: the mean of those before
  bool skipped = false;              // its update was left out for that
};

// The loss on other data, after a step.
struct EvaluationReport {
  std::int64_t step = 0;  // the last one before
  double loss = 0.0;      // mean over the tokens of all its batches
  double seconds = 0.0;
};

// Calls come one at a time, from any thread of the run, in batches at about each step's end. Spans
// and samples of a rank are ordered only within each lane. A sink must not wait for the run.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual void OnSpans(std::span<const Span> spans) { (void)spans; }
  virtual void OnMemory(std::span<const MemorySample> samples) { (void)samples; }
  virtual void OnStepWindow(const StepWindow& window) { (void)window; }
  virtual void OnRouting(const RoutedCounts& counts) { (void)counts; }
  virtual void OnScalars(const StepScalars& scalars) { (void)scalars; }
  virtual void OnStep(const StepReport& report) { (void)report; }
  // Readings over time, such as a GPU's clocks.
  virtual void OnCounters(std::span<const Counter> counters) { (void)counters; }
  // The report of a process's recording; `rank` is its first rank. Called once, after all its
  // spans.
  virtual void OnCapture(int rank, const CaptureReport& report) { (void)rank, (void)report; }
  // The newest ops of each rank of this process, one a line. Called once, after a run that failed.
  virtual void OnFailure(const std::string& last_ops) { (void)last_ops; }
  virtual void OnEvaluation(const EvaluationReport& report) { (void)report; }
};

}  // namespace foretrain

// The recording of a training run: its spans, steps and counters go to the store, its progress to
// the terminal. Leaves out running it: app/training/training.h.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/training/outputs/step_files.h"
#include "app/training/run_capture.h"
#include "app/training/training_options.h"
#include "base/result.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/run/run_sink.h"
#include "traces/metrics/metrics.h"
#include "traces/store.h"

namespace foretrain {

// Shows each step: as a JSON line, as a bar that redraws itself on a terminal, or as a line for
// about every twentieth step.
class TrainingProgress {
 public:
  //   first_step  number of the run's first step
  //   predicted   shown beside the measured times
  TrainingProgress(const TrainingOptions& options, std::int64_t first_step,
                   const StepForecast& predicted = {});
  void OnStep(const StepReport& report);
  void OnSaved(const SaveReport& report) const;
  void OnEvaluation(const EvaluationReport& report) const;
  void End() const;

 private:
  // "step 3/10  loss 2.3456  1.50 k tokens/s  10.2 ms a step (forecast 9.80 ms)  1.20 GiB"
  std::string Line(const StepReport& report) const;
  // "  12.3 s left"; empty before the second step and after the last.
  std::string Left(std::int64_t done) const;
  std::string Bar(std::int64_t done) const;

  const TrainingOptions& options_;
  const std::int64_t first_step_;
  const StepForecast predicted_;
  bool terminal_;
  bool drawn_ = false;
  double elapsed_s_ = 0;
};

// The cost of recording. A run whose window leaves steps out measures it itself. The first step
// warms up and counts in neither median.
struct CaptureCost {
  double share = 0;                           // of the recording threads' CPU time
  std::optional<double> recorded_step_s{};    // median of the window's steps
  std::optional<double> unrecorded_step_s{};  // of the others; neither with fewer than 3 of each
};

// Hands everything on to the store and the step files. If the store cannot be written, the run goes
// on without a record until it can be written again; with TrainingOptions::recording_required,
// failed() is true from then on, and the run ends at the next step with the store's Error. The same
// holds for the step files, whose failure leaves the record whole.
class RecordingSink final : public RunSink {
 public:
  //   first_step      number of the run's first step
  //   predicted       shown and written beside the measured times
  //   files           also written at each step; not null
  //   known_troubles  problems of this process's recording that were reported before the run
  RecordingSink(RunRecorder& recorder, const TrainingOptions& options, std::int64_t first_step,
                const StepForecast& predicted, std::unique_ptr<StepFiles> files,
                std::vector<std::string> known_troubles);

  void OnSpans(std::span<const Span> spans) override;
  void OnMemory(std::span<const MemorySample> samples) override;
  void OnStepWindow(const StepWindow& window) override;
  void OnStep(const StepReport& report) override;
  void OnCounters(std::span<const Counter> counters) override;
  void OnEvaluation(const EvaluationReport& report) override;
  void OnCapture(int rank, const CaptureReport& report) override { reports_[rank] = report; }
  void OnFailure(const std::string& last_ops) override;

  // A checkpoint was written, or could not be. Safe from any thread; it is shown with the next
  // step.
  void OnSaved(const SaveReport& report);

  // Ends the progress line and stores how each process's recording went. Called once no rank runs.
  void End();
  bool failed() const { return error_.has_value() && options_.recording_required; }
  // The first error of the store.
  const std::optional<Error>& error() const { return error_; }
  // All so far. Called once no rank runs.
  const std::vector<SaveReport>& saves() const { return saves_; }
  double first_loss() const { return first_loss_; }
  double last_loss() const { return last_loss_; }
  const std::optional<double>& evaluation_loss() const { return evaluation_loss_; }
  CaptureCost Cost(const RecordingCost& recording) const;

 private:
  int FirstRankHere() const;
  void ShowSaves();
  // Remembers the first error, and says on stderr that the run goes on unrecorded.
  void Keep(const Result<void>& result);
  // The same for an error of the step files, which leaves the record whole.
  void KeepFiles(const Result<void>& result);

  const TrainingOptions& options_;
  const std::int64_t first_step_;
  RunRecorder& recorder_;
  const StepForecast predicted_;
  const std::unique_ptr<StepFiles> files_;
  const std::vector<std::string> known_troubles_;
  CaptureReports reports_;
  TrainingProgress progress_;
  std::vector<Span> spans_;  // swapped with the recorder, which returns an empty vector
  std::vector<MemorySample> samples_;
  std::optional<Error> error_;
  std::mutex saving_;
  std::vector<SaveReport> saves_;  // guarded by saving_
  std::size_t saves_shown_ = 0;
  double first_loss_ = 0, last_loss_ = 0;
  std::optional<double> evaluation_loss_;
  std::vector<double> recorded_s_, unrecorded_s_;  // seconds of steps
};

// Computes the metrics of a recorded run and adds them to it. The spans are read back from the
// store at `path` in parts, so that memory does not grow with the number of steps.
Result<Metrics> MetricsOfRecording(const std::string& path, RunRecorder& recorder,
                                   const MetricOptions& options);

}  // namespace foretrain

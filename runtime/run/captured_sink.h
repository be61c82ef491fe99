// Sits between a process's executor and the run's sink: host spans go through the device's
// recording (profiler/capture_session.h), and its spans come out.
#pragma once

#include <memory>
#include <vector>

#include "profiler/capture_session.h"
#include "runtime/run/run_sink.h"

namespace foretrain {

// Called like a RunSink: one call at a time.
class CapturedSink final : public RunSink {
 public:
  // `capture`: null if the device records nothing; `rank`: the first of this process; `next` is
  // borrowed.
  CapturedSink(std::shared_ptr<CaptureSession> capture, int rank, RunSink& next)
      : capture_(std::move(capture)), rank_(rank), next_(next) {}

  void OnSpans(std::span<const Span> spans) override;
  void OnMemory(std::span<const MemorySample> samples) override { next_.OnMemory(samples); }
  void OnStepWindow(const StepWindow& window) override;
  void OnRouting(const RoutedCounts& counts) override { next_.OnRouting(counts); }
  void OnScalars(const StepScalars& scalars) override { next_.OnScalars(scalars); }
  void OnStep(const StepReport& report) override { next_.OnStep(report); }
  void OnCounters(std::span<const Counter> counters) override { next_.OnCounters(counters); }

  // Called when no rank of this process runs any more: passes on the remaining spans and the
  // report.
  void End();

 private:
  void HandOn();

  const std::shared_ptr<CaptureSession> capture_;  // shared with threads that outlive a failed run
  const int rank_;
  RunSink& next_;
  std::vector<Span> ready_;
};

}  // namespace foretrain

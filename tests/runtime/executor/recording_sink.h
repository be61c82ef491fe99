// Stores everything that a run reports.
#pragma once

#include <map>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/run/run_sink.h"

namespace foretrain {

struct RecordingSink : RunSink {
  void OnSpans(std::span<const Span> more) override {
    timeline.spans.insert(timeline.spans.end(), more.begin(), more.end());
  }
  void OnMemory(std::span<const MemorySample> more) override {
    timeline.memory.insert(timeline.memory.end(), more.begin(), more.end());
  }
  void OnStepWindow(const StepWindow& window) override { timeline.steps.push_back(window); }
  void OnRouting(const RoutedCounts& more) override { routing.push_back(more); }
  void OnScalars(const StepScalars& more) override { scalars.push_back(more); }
  void OnStep(const StepReport& report) override { reports.push_back(report); }

  void OnCounters(std::span<const Counter> more) override {
    counters.insert(counters.end(), more.begin(), more.end());
  }
  void OnCapture(int rank, const CaptureReport& report) override { captures[rank] = report; }

  Timeline timeline;
  std::vector<StepScalars> scalars;
  std::vector<StepReport> reports;
  std::vector<RoutedCounts> routing;
  std::vector<Counter> counters;
  std::map<int, CaptureReport> captures;
};

// Tokens that encode their origin.
struct CountingBatches : BatchSource {
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    const auto base =
        static_cast<std::int32_t>(request.step * 10000 + std::int64_t{request.dp} * 1000 +
                                  std::int64_t{request.micro_batch} * 100);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = base + static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = base + static_cast<std::int32_t>(i) + 1;
    }
    return {};
  }
};

}  // namespace foretrain

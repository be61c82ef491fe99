#include <algorithm>
#include <cmath>
#include <map>

#include "ui/view_model/runs/run_model.h"

namespace foretrain::ui {
namespace {

RunPhase PhaseOf(const RunProgress& progress) {
  switch (progress.info.status) {
    case RunStatus::kRunning:
      return progress.series.empty() ? RunPhase::kStarting : RunPhase::kTraining;
    case RunStatus::kFinished:
      return RunPhase::kDone;
    case RunStatus::kInterrupted:
      return RunPhase::kStopped;
    case RunStatus::kFailed:
      return RunPhase::kFailed;
  }
  return RunPhase::kFailed;
}

}  // namespace

// A step is known by its series: its loss, its rate, the memory of its process. Its time follows
// from the tokens of a step.
RunModel ModelOf(const RunProgress& progress) {
  std::map<std::int32_t, StepLine> steps;
  RunModel model;
  for (const Counter& counter : progress.series) {
    if (counter.name == "loss") steps[counter.step].loss = counter.value;
    if (counter.name == "gradient_norm") steps[counter.step].gradient_norm = counter.value;
    if (counter.name == "tokens_per_s" && counter.value > 0) {
      steps[counter.step].tokens_per_s = counter.value;
      steps[counter.step].seconds = progress.tokens_per_step / counter.value;
    }
    if (counter.name == "resident_bytes" && std::isfinite(counter.value) && counter.value >= 0 &&
        counter.value < 0x1p62) {
      model.resident_bytes.push_back(std::llround(counter.value));
      model.peak_resident_bytes = std::max(model.peak_resident_bytes, model.resident_bytes.back());
    }
  }
  std::vector<StepLine> lines;
  for (auto& [number, step] : steps) {
    step.step = number;
    step.predicted_s = progress.predicted_step_s;
    lines.push_back(step);
  }
  model.phase = PhaseOf(progress);
  model.log.SetSteps(std::move(lines));
  model.followed = progress.info.id;
  model.reason = progress.info.message;
  return model;
}

RunId RunningOf(const std::vector<RunInfo>& runs) {
  RunId newest = 0;
  for (const RunInfo& run : runs) {
    if (run.status == RunStatus::kRunning && run.kind == RunKind::kMeasured) newest = run.id;
  }
  return newest;
}

}  // namespace foretrain::ui

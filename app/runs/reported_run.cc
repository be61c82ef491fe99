#include "app/runs/reported_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/report/html/html_report.h"
#include "app/runs/compared_runs.h"
#include "app/runs/recording_notes.h"
#include "base/text.h"
#include "traces/import/ranks/rank_join.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxMessageBytes = 1000;

// The metrics of step `step`, or of the median one.
Result<StepMetrics> ShownStep(const RunInfo& info, const Metrics& metrics, int step) {
  if (!metrics.overall) {
    const std::string why =
        info.message.empty() ? "" : ": " + Printable(info.message, kMaxMessageBytes);
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("run {} has no complete step{}", info.id, why));
  }
  if (step < 0) return *metrics.overall;
  const auto found = std::find_if(metrics.steps.begin(), metrics.steps.end(),
                                  [step](const StepMetrics& of) { return of.step == step; });
  if (found != metrics.steps.end()) return *found;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--step: run {} has no step {}; it has steps {} to {}", info.id, step,
                          metrics.steps.front().step, metrics.steps.back().step));
}

}  // namespace

// The comparison compiles the program again and takes longest, so the step is checked before it.
Result<ReportedRun> ReportRun(const StoreReader& reader, RunId run, RunId against, int step) {
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, run, against));
  const RunInfo& info = choice.measured ? *choice.measured : *choice.predicted;
  FT_ASSIGN(StoredRun alone, reader.LoadRun(info.id));
  HtmlReport report{.title = info.label};
  MetricOptions options{.pipelines = PipelinesIn(alone.details_json)};
  if (info.kind != RunKind::kImported) {
    FT_ASSIGN(const StoredContext stored, ContextOf(reader, alone));
    // A forecast shows its last, steady step.
    const int left_out = info.kind == RunKind::kPredicted ? 100 : WarmupSteps(alone.timeline);
    options = MetricOptionsFor(stored.context, stored.plan, left_out);
    report.title = stored.context.model.name + ", " + Describe(stored.plan);
    report.layers = static_cast<int>(stored.context.model.AllLayers());
  }
  const Metrics metrics = ComputeMetrics(alone.timeline, options);
  FT_ASSIGN(report.shown, ShownStep(info, metrics, step));
  report.metrics = &metrics;
  report.notes = RecordingNotes(alone, metrics.coverage);
  report.run = &alone;
  ReportedRun out{.run = info.id};
  std::optional<ComparedRuns> compared;
  if (choice.predicted && choice.measured) {
    Result<ComparedRuns> made = CompareRuns(reader, info.id, choice.predicted->id,
                                            step < 0 ? std::nullopt : std::optional<int>(step));
    if (made.has_value()) {
      compared = std::move(*made);
      report.run = &compared->measured;
      report.against = &compared->predicted;
      report.comparison = &compared->view;
      out.against = choice.predicted->id;
      // One step is shown throughout.
      const int measured = compared->view.join.measured_step;
      FT_ASSIGN(report.shown, ShownStep(info, metrics, measured));
    } else {
      report.notes.push_back("not compared: " + made.error().message);
    }
  }
  out.page = HtmlPage(report);
  return out;
}

}  // namespace foretrain

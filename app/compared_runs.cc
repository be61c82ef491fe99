#include "app/compared_runs.h"

#include <algorithm>
#include <set>

#include "app/recording_notes.h"
#include "base/units.h"

namespace foretrain {
namespace {

int LastStep(const Timeline& timeline) {
  int last = 0;
  for (const StepWindow& window : timeline.steps) last = std::max(last, window.step);
  return last;
}

int FirstStep(const Timeline& timeline) {
  int first = timeline.steps.empty() ? 0 : timeline.steps.front().step;
  for (const StepWindow& window : timeline.steps) first = std::min(first, window.step);
  return first;
}

std::set<int> RecordedRanks(const Timeline& timeline) {
  std::set<int> ranks;
  for (const StepWindow& window : timeline.steps) ranks.insert(window.rank);
  return ranks;
}

// Leaves the forecast of the ranks that were recorded.
void KeepRanks(const std::set<int>& ranks, Timeline& timeline) {
  const auto other = [&ranks](const auto& of) { return !ranks.contains(of.rank); };
  std::erase_if(timeline.spans, other);
  std::erase_if(timeline.memory, other);
  std::erase_if(timeline.steps, other);
}

tl::unexpected<Error> NotAttributed(const std::string& why) {
  return Fail(ErrorCode::kUnsupported, "gap not attributed: " + why);
}

// Any failure is a note, not an end.
void Attribute(const StoreReader& reader, ComparedRuns& runs) {
  if (runs.HasTrace()) {
    runs.view.notes.push_back(
        "a trace has no program: its ops are paired where the other run has the same names, "
        "classes are of all ops, tokens/s and MFU those of the other's plan, and the gap is not "
        "attributed");
    return;
  }
  auto gap = AttributeStep(reader, runs.predicted, runs.measured, runs.view.join.measured_step);
  if (!gap.has_value()) {
    runs.view.notes.push_back(gap.error().message);
    return;
  }
  runs.attribution = std::make_unique<Attribution>(*std::move(gap));
  runs.view.attribution = runs.attribution.get();
}

}  // namespace

Result<Attribution> AttributeStep(const StoreReader& reader, const StoredRun& predicted,
                                  const StoredRun& measured, int step) {
  if (const auto recorded = RecordedRanks(measured.timeline);
      static_cast<int>(recorded.size()) < measured.info.world) {
    return NotAttributed(std::to_string(recorded.size()) + " of " +
                         std::to_string(measured.info.world) +
                         " ranks were recorded (--profile-ranks), and these are compared");
  }
  if (measured.timeline.spans.empty()) {
    return NotAttributed("no ops were recorded (--capture off)");
  }
  const auto stored = ContextOf(reader, predicted);
  if (!stored.has_value()) return NotAttributed(stored.error().message);
  if (predicted.info.program_hash != measured.info.program_hash) {
    return Fail(ErrorCode::kUnsupported,
                "the runs have different programs: ops are matched by what they are, and the gap "
                "is not attributed");
  }
  const auto forecast = MakeForecast(stored->context.model, stored->plan, stored->context.costs,
                                     RankChoice::kAll, /*timeline=*/false);
  if (!forecast.has_value()) return NotAttributed(forecast.error().message);
  if (forecast->program.hash != measured.info.program_hash) {
    return NotAttributed("this foretrain compiles the plan to another program");
  }
  auto gap = AttributeGap(forecast->program, forecast->costs, measured.timeline, step);
  if (!gap.has_value()) return NotAttributed(gap.error().message);
  return *std::move(gap);
}

Result<ComparedRuns> CompareRuns(const StoreReader& reader, RunId run, RunId against,
                                 std::optional<int> chosen) {
  FT_ASSIGN(RunPair pair, LoadPair(reader, run, against));
  if (!pair.predicted || !pair.measured) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "a comparison takes a measured run and its forecast; `foretrain runs` lists the runs, "
        "--run and --against name two");
  }
  ComparedRuns out;
  out.predicted = *std::move(pair.predicted);
  out.measured = *std::move(pair.measured);
  Timeline& forecast = out.predicted.timeline;
  const Timeline& measured = out.measured.timeline;
  if (!measured.steps.empty()) KeepRanks(RecordedRanks(measured), forecast);
  const bool trace = out.measured.info.kind == RunKind::kImported;
  const int warmup = trace ? 0 : WarmupSteps(measured);
  const auto step = chosen ? chosen : MedianStep(measured, FirstStep(measured) + warmup);
  if (!step || forecast.steps.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "run " + std::to_string(out.measured.info.id) +
                    " has fewer than two complete steps; train for more");
  }
  std::optional<StoredContext> stored;  // none: another trace, of no known plan
  const bool against_trace = out.predicted.info.kind == RunKind::kImported;
  if (!against_trace) {
    FT_ASSIGN(stored, ContextOf(reader, out.predicted));
  }
  const int against_step =
      against_trace ? MedianStep(forecast, FirstStep(forecast)).value() : LastStep(forecast);
  out.view.join = JoinRuns(forecast, against_step, measured, *step);
  if (out.HasTrace()) {
    out.view.join.classes = ClassesOfAll(forecast, against_step, measured, *step);
  }
  const auto metrics_of = [&](const Timeline& timeline, int left_out) {
    return ComputeMetrics(timeline, stored
                                        ? MetricOptionsFor(stored->context, stored->plan, left_out)
                                        : MetricOptions{.warmup_steps = left_out});
  };
  const Metrics predicted_metrics =
      metrics_of(forecast, against_trace ? 0 : LastStep(forecast) - FirstStep(forecast));
  const Metrics measured_metrics = metrics_of(measured, warmup);
  out.view.title = "run " + std::to_string(out.measured.info.id) + ": " +
                   (trace || !stored ? out.measured.info.label : Describe(stored->plan));
  if (out.predicted.info.kind != RunKind::kPredicted) {
    out.view.predicted_name = "run " + std::to_string(out.predicted.info.id);
    out.view.measured_name = "run " + std::to_string(out.measured.info.id);
  }
  out.view.predicted = *predicted_metrics.overall;
  out.view.measured = *measured_metrics.overall;
  out.view.predicted_peaks = PeaksOf(predicted_metrics);
  out.view.measured_peaks = PeaksOf(measured_metrics);
  if (stored) out.view.layers = static_cast<int>(stored->context.model.layers);
  for (const Counter& counter : out.measured.counters) {
    if (counter.name == "machine_drift") out.view.machine_drift = counter.value;
  }
  out.view.notes = RecordingNotes(out.measured, measured_metrics.coverage);
  if (stored && stored->context.costs.profile().date.empty()) {
    out.view.notes.push_back(
        "the forecast's rates were assumed, not measured: `foretrain calibrate` measures this "
        "machine");
  }
  Attribute(reader, out);
  return out;
}

}  // namespace foretrain

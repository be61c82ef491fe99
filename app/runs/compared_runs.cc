#include "app/runs/compared_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "app/report/checkpoint_report.h"
#include "app/runs/recording_notes.h"
#include "app/runs/traced_ranks.h"
#include "base/units.h"
#include "sim/compare/structure/pair_by_structure.h"
#include "traces/metrics/gpu/throttling.h"

namespace foretrain {
namespace {

int FirstStep(const Timeline& timeline) {
  int first = timeline.steps.empty() ? 0 : timeline.steps.front().step;
  for (const StepWindow& window : timeline.steps) first = std::min(first, window.step);
  return first;
}

// Removes the forecast of ranks that were not recorded. Keeps all if none would be left, as of two
// traces of one rank each.
void KeepRanks(const std::set<int>& ranks, Timeline& timeline) {
  const auto both = [&ranks](const StepWindow& window) { return ranks.contains(window.rank); };
  if (std::none_of(timeline.steps.begin(), timeline.steps.end(), both)) return;
  const auto other = [&ranks](const auto& of) { return !ranks.contains(of.rank); };
  std::erase_if(timeline.spans, other);
  std::erase_if(timeline.memory, other);
  std::erase_if(timeline.steps, other);
}

tl::unexpected<Error> NotAttributed(const std::string& why) {
  return Fail(ErrorCode::kUnsupported, "gap not attributed: " + why);
}

// The steps that are held against each other, and how many first steps the metrics leave out.
struct ComparedSteps {
  int predicted = 0;
  int measured = 0;
  int predicted_left_out = 0;
  int measured_left_out = 0;
};

// A forecast stands for its last, steady step; a trace in its place for its median step. A measured
// run without a `chosen` step stands for its median step after the warm-up.
Result<ComparedSteps> StepsOf(const ComparedRuns& runs, std::optional<int> chosen) {
  const Timeline& forecast = runs.predicted.timeline;
  const Timeline& measured = runs.measured.timeline;
  ComparedSteps steps;
  const bool trace = runs.measured.info.kind == RunKind::kImported;
  steps.measured_left_out = trace ? 0 : WarmupSteps(measured);
  const auto step =
      chosen ? chosen : MedianStep(measured, FirstStep(measured) + steps.measured_left_out);
  if (!step || forecast.steps.empty()) {
    const RunInfo& info = step ? runs.predicted.info : runs.measured.info;
    return Fail(
        ErrorCode::kInvalidArgument,
        "run " + std::to_string(info.id) + " has fewer than two complete steps; train for more");
  }
  steps.measured = *step;
  if (runs.predicted.info.kind == RunKind::kImported) {
    steps.predicted = MedianStep(forecast, FirstStep(forecast)).value();
  } else {
    steps.predicted = LastStep(forecast);
    steps.predicted_left_out = LastStep(forecast) - FirstStep(forecast);
  }
  return steps;
}

// Fills in names, layers, drift and the note on assumed rates.
void Describe(const std::optional<StoredContext>& stored, ComparedRuns& runs) {
  ComparisonView& view = runs.view;
  const bool trace = runs.measured.info.kind == RunKind::kImported;
  view.title = "run " + std::to_string(runs.measured.info.id) + ": " +
               (trace || !stored ? runs.measured.info.label : foretrain::Describe(stored->plan));
  if (runs.predicted.info.kind != RunKind::kPredicted) {
    view.predicted_name = "run " + std::to_string(runs.predicted.info.id);
    view.measured_name = "run " + std::to_string(runs.measured.info.id);
  }
  if (stored) view.layers = static_cast<int>(stored->context.model.AllLayers());
  for (const Counter& counter : runs.measured.counters) {
    if (counter.name == "machine_drift") view.machine_drift = counter.value;
  }
  if (stored && stored->context.costs.profile().date.empty()) {
    view.notes.push_back(
        "the forecast's rates were assumed, not measured: `foretrain calibrate` measures this "
        "machine");
  }
}

// Gives the kernels of a trace the ids of the forecast's ops, if it is a trace that is compared
// with a forecast.
void PairTrace(ComparedRuns& runs, const ComparedSteps& steps) {
  if (runs.predicted.info.kind == RunKind::kImported ||
      runs.measured.info.kind != RunKind::kImported) {
    return;
  }
  runs.view.structure = PairByStructure(runs.predicted.timeline, steps.predicted,
                                        runs.measured.timeline, steps.measured);
}

// The longest window of a step over the ranks.
StepWindow WindowOf(const Timeline& timeline, int step) {
  StepWindow longest;
  for (const StepWindow& window : timeline.steps) {
    if (window.step == step &&
        window.end_ns - window.start_ns > longest.end_ns - longest.start_ns) {
      longest = window;
    }
  }
  return longest;
}

// The machine during a step, by the run's counters. A GPU that is throttled for several reasons
// counts once, for the one that costs most.
MachineState MachineStateOf(const StoredRun& run, int step) {
  MachineState state;
  for (const Counter& counter : run.counters) {
    if (counter.name == "core_wait_s" && counter.step == step) state.core_wait_s = counter.value;
  }
  const StepWindow window = WindowOf(run.timeline, step);
  std::map<int, double> slowdowns;
  for (const Throttling& held : ThrottledRanks(run.counters, window.start_ns, window.end_ns)) {
    if (!held.clock_hz || !held.other_clock_hz || *held.other_clock_hz <= 0) continue;
    const double rate = 1 - held.share + held.share * *held.clock_hz / *held.other_clock_hz;
    double& slowdown = slowdowns[held.rank];
    if (rate > 0) slowdown = std::max(slowdown, 1 / rate);
  }
  for (const auto& [rank, slowdown] : slowdowns) state.throttled.push_back({rank, slowdown});
  return state;
}

// Attributes step `step` of `measured`, whose forecast was made in `stored`. The program is
// compiled again and replayed, so it must be the same one, with all ranks and all their ops. Each
// missing condition is told by its own sentence.
Result<Attribution> AttributeIn(const Result<StoredContext>& stored, const StoredRun& predicted,
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
  if (!stored.has_value()) return NotAttributed(stored.error().message);
  if (measured.info.kind != RunKind::kImported &&
      predicted.info.program_hash != measured.info.program_hash) {
    return Fail(ErrorCode::kUnsupported,
                "the runs have different programs: ops are matched by what they are, and the gap "
                "is not attributed");
  }
  const auto forecast = MakeForecast(stored->context.model, stored->plan, stored->context.costs,
                                     {.simulate = {.timeline = false}});
  if (!forecast.has_value()) return NotAttributed(forecast.error().message);
  if (forecast->program.hash != predicted.info.program_hash) {
    return NotAttributed("this foretrain compiles the plan to another program");
  }
  auto gap = AttributeGap(forecast->program, forecast->costs, measured.timeline, step,
                          MachineStateOf(measured, step));
  if (!gap.has_value()) return NotAttributed(gap.error().message);
  return *std::move(gap);
}

// Adds why the step took another time than its forecast. A failure becomes a note.
void AddAttribution(const Result<StoredContext>& stored, ComparedRuns& runs) {
  if (runs.HasTrace()) {
    runs.view.notes.push_back(
        "a trace has no program: classes are of all its ops, tokens/s and MFU those of the other "
        "run's plan");
    if (!runs.view.structure) return;
    const double paired = runs.view.structure->PairedShare();
    const double of_forecast = runs.view.structure->ForecastShare();
    if (!runs.view.structure->IsTrusted()) {
      runs.view.notes.push_back(fmt::format(
          "gap not attributed: {} of the traced time has an op of the forecast, and {} of the "
          "forecast's compute has kernels; {} and {} are needed: is it a forecast of what was "
          "traced?",
          FormatPercent(paired), FormatPercent(of_forecast),
          FormatPercent(StructuralPairs::kLeastPaired),
          FormatPercent(StructuralPairs::kLeastOfForecast)));
      return;
    }
  }
  auto gap = AttributeIn(stored, runs.predicted, runs.measured, runs.view.join.measured_step);
  if (!gap.has_value()) {
    runs.view.notes.push_back(gap.error().message);
    return;
  }
  runs.attribution = std::make_unique<Attribution>(*std::move(gap));
  runs.view.attribution = runs.attribution.get();
}

// The order matters: the forecast is cut to the recorded ranks before ops are joined, or missing
// ranks would count as errors. Metrics then use the same plan on both sides.
Result<void> Join(const std::optional<StoredContext>& stored, std::optional<int> chosen,
                  ComparedRuns& out) {
  Timeline& forecast = out.predicted.timeline;
  const Timeline& measured = out.measured.timeline;
  if (stored && out.HasTrace()) AddTracedRanks(*stored, RecordedRanks(measured), forecast);
  if (!measured.steps.empty()) KeepRanks(RecordedRanks(measured), forecast);
  FT_ASSIGN(const ComparedSteps steps, StepsOf(out, chosen));
  PairTrace(out, steps);
  out.view.join = JoinRuns(forecast, steps.predicted, measured, steps.measured);
  // Ops of a trace pair only in part, so its classes are summed over all ops.
  if (out.HasTrace()) {
    out.view.join.classes = ClassesOfAll(forecast, steps.predicted, measured, steps.measured);
  }
  const auto metrics_of = [&](const StoredRun& of, int left_out) {
    return ComputeMetrics(of.timeline,
                          stored ? MetricOptionsFor(stored->context, stored->plan, left_out)
                                 : MetricOptions{.pipelines = PipelinesIn(of.details_json),
                                                 .warmup_steps = left_out});
  };
  const Metrics predicted_metrics = metrics_of(out.predicted, steps.predicted_left_out);
  const Metrics measured_metrics = metrics_of(out.measured, steps.measured_left_out);
  out.view.predicted = *predicted_metrics.overall;
  out.view.measured = *measured_metrics.overall;
  out.view.predicted_peaks = PeaksOf(predicted_metrics);
  out.view.measured_peaks = PeaksOf(measured_metrics);
  out.view.notes = RecordingNotes(out.measured, measured_metrics.coverage);
  if (out.predicted.info.world != out.measured.info.world) {
    out.view.notes.push_back(
        fmt::format("run {} has {} ranks and run {} has {}: times are means over the ranks of each",
                    out.predicted.info.id, out.predicted.info.world, out.measured.info.id,
                    out.measured.info.world));
  }
  Describe(stored, out);
  AddAttribution(stored ? Result<StoredContext>(*stored)
                        : Fail(ErrorCode::kUnsupported, "the plan is not known"),
                 out);
  return {};
}

// As LoadRun gives a stored forecast.
StoredRun RunOf(const ForecastContext& context, const Forecast& forecast) {
  RunSetup setup = SetupFor(RunKind::kPredicted, context, forecast.program,
                            foretrain::Describe(forecast.program.plan));
  StoredRun run;
  run.info.kind = RunKind::kPredicted;
  run.info.status = RunStatus::kFinished;
  run.info.label = setup.label;
  run.info.world = setup.world;
  run.info.program_hash = setup.specs.program_hash;
  run.info.metrics = MetricsOf(CheckpointCostIn(context, forecast.program.plan));
  run.specs = std::move(setup.specs);
  run.timeline = forecast.simulation.timeline;
  run.timeline.op_names = OpNamesOf(forecast.program);
  SortTimeline(run.timeline);
  return run;
}

}  // namespace

Result<Attribution> AttributeStep(const StoreReader& reader, const StoredRun& predicted,
                                  const StoredRun& measured, int step) {
  return AttributeIn(ContextOf(reader, predicted), predicted, measured, step);
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
  std::optional<StoredContext> stored;  // none: another trace, of no known plan
  if (out.predicted.info.kind != RunKind::kImported) {
    FT_ASSIGN(stored, ContextOf(reader, out.predicted));
  }
  FT_TRY(Join(stored, chosen, out));
  return out;
}

Result<ComparedRuns> CompareWithForecast(const StoreReader& reader, RunId run,
                                         const ForecastContext& context, const Forecast& forecast) {
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, run, 0));
  if (!choice.measured) {
    return Fail(ErrorCode::kInvalidArgument,
                reader.path() +
                    ": no measured run to compare with the launch file; `foretrain train` and "
                    "`foretrain import` add one");
  }
  ComparedRuns out;
  FT_ASSIGN(out.measured, reader.LoadRun(choice.measured->id));
  out.predicted = RunOf(context, forecast);
  FT_TRY(Join(StoredContext{context, forecast.program.plan, 0}, std::nullopt, out));
  return out;
}

}  // namespace foretrain

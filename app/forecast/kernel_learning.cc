#include "app/forecast/kernel_learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/forecast/calibration.h"
#include "app/forecast/forecasting.h"
#include "app/report/report.h"
#include "app/runs/traced_ranks.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/units.h"
#include "sim/forecast/forecast.h"
#include "sim/learn/traced_points.h"
#include "traces/store.h"

namespace foretrain {
namespace {

// On an accelerator a rank of each class is enough; the others have the same ops.
Result<Forecast> ForecastOf(const Measurement& run, const DeviceProfile& profile) {
  FT_ASSIGN(const CostModel costs, CostModel::Make(run.cluster, profile));
  ForecastOptions options;
  options.ranks = run.cluster.is_cpu ? RankChoice::kAll : RankChoice::kClasses;
  options.simulate.last_step = true;
  options.simulate.threads = HardwareThreads();
  return MakeForecast(run.model, run.plan, costs, options);
}

// Gives the kernels of an imported run the ids of the forecast's ops.
Result<StructuralPairs> Pair(const Measurement& run, const DeviceProfile& profile,
                             const Forecast& forecast, Timeline& trace) {
  FT_ASSIGN(CostModel costs, CostModel::Make(run.cluster, profile));
  Timeline timeline = forecast.simulation.timeline;
  timeline.op_names = OpNamesOf(forecast.program);
  AddTracedRanks({{run.model, run.cluster, std::move(costs), ""}, run.plan}, RecordedRanks(trace),
                 timeline);
  const StructuralPairs pairs = PairAllSteps(timeline, trace);
  if (pairs.IsTrusted()) return pairs;
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: {} of the traced time has an op of the forecast, and {} of the forecast's "
                  "compute has kernels; {} and {} are needed: are model, cluster and plan those of "
                  "the trace?",
                  run.name, FormatPercent(pairs.PairedShare()),
                  FormatPercent(pairs.ForecastShare()),
                  FormatPercent(StructuralPairs::kLeastPaired),
                  FormatPercent(StructuralPairs::kLeastOfForecast)));
}

Result<Measurement> OneRun(const LearnRequest& request) {
  if (request.out.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--kernels: name the file of the profile with --out; forecasts take it with "
                "--device-profile");
  }
  FT_ASSIGN(std::vector<Measurement> runs, ReadMeasurements(request));
  if (runs.size() != 1 || runs.front().run == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--kernels with {} measurements: give --from-run one stored run, "
                            "because a log or a step time has no kernels",
                            runs.size()));
  }
  if (runs.front().cluster.is_cpu && runs.front().plan.World() > 1) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("--kernels: {} ranks of {} share the cores of a CPU; `foretrain "
                            "calibrate` measures the ops of such plans",
                            runs.front().plan.World(), runs.front().name));
  }
  return std::move(runs.front());
}

}  // namespace

Result<KernelLearning> LearnFromKernels(const LearnRequest& request) {
  FT_ASSIGN(const Measurement run, OneRun(request));
  FT_ASSIGN(std::optional<Preset> preset, request.plan.ResolvePreset());
  if (!preset) {
    FT_ASSIGN(preset, request.dialect.Software());
  }
  KernelLearning out{.run = run.name, .plan = Describe(run.plan)};
  FT_ASSIGN(DeviceProfile profile,
            MakeProfile(request.cluster, run.cluster, preset, false, out.origin));
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(run.store));
  FT_ASSIGN(StoredRun stored, reader.LoadRun(run.run));
  if (stored.timeline.spans.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                run.name +
                    " has no kernels: it was recorded with --capture off, or is a memory "
                    "snapshot");
  }
  FT_ASSIGN(const Forecast before, ForecastOf(run, profile));
  if (stored.info.kind == RunKind::kImported) {
    FT_ASSIGN(out.pairs, Pair(run, profile, before, stored.timeline));
  }
  const TracedPointsOptions options{.collectives = stored.info.kind == RunKind::kImported
                                                       ? CollectiveSpans::kIfTogether
                                                       : CollectiveSpans::kFromArrival,
                                    .cluster = &run.cluster};
  const TracedPoints traced = PointsOfTrace(before.program, stored.timeline, options);
  const bool collectives =
      std::any_of(traced.points.begin(), traced.points.end(),
                  [](const ProfilePoint& point) { return IsCollective(point.kind); });
  if (traced.timed == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                run.name + ": none of its spans is a compute op of the plan");
  }
  const TracedPointsOptions of_forecast{.collectives = CollectiveSpans::kFromLast,
                                        .cluster = &run.cluster};
  // Twice: what a forecast adds to a point depends little on the point.
  std::vector<ProfilePoint> points = traced.points;
  for (int round = 0; round < 2; ++round) {
    for (const ProfilePoint& point : points) AddPoint(profile, point);
    FT_ASSIGN(const Forecast fitted, ForecastOf(run, profile));
    FitPoints(traced.points, PointsOfTrace(fitted.program, fitted.simulation.timeline, of_forecast),
              points);
  }
  for (const ProfilePoint& point : points) AddPoint(profile, point);
  profile.assumptions = fmt::format("times of compute ops{} from the kernels of {}",
                                    collectives ? " and collectives" : "", run.name);
  FT_ASSIGN(const Forecast after, ForecastOf(run, profile));
  out.path = request.out;
  out.ranks = static_cast<int>(RecordedRanks(stored.timeline).size());
  out.timed = traced.timed;
  out.fused = traced.fused;
  out.samples = traced.samples;
  out.collectives = collectives;
  out.measured_s = run.step_s;
  out.before_s = before.simulation.step_s;
  out.after_s = after.simulation.step_s;
  FT_TRY(WriteProfile(out.path, profile));
  return out;
}

std::string KernelLearningText(const KernelLearning& learned) {
  std::string text = fmt::format("{}, {}, {} rank{}; rates {}\n", learned.run, learned.plan,
                                 learned.ranks, learned.ranks == 1 ? "" : "s", learned.origin);
  if (learned.pairs) {
    text += fmt::format("  paired by structure     {} of the traced time, {} of the forecast's\n",
                        FormatPercent(learned.pairs->PairedShare()),
                        FormatPercent(learned.pairs->ForecastShare()));
  }
  text += fmt::format(
      "  ops                     {} kinds and shapes, from {} measured ops; {} without a kernel\n",
      learned.timed, FormatCount(learned.samples), learned.fused);
  if (!learned.collectives) {
    text +=
        "  collectives             not learned: their waits for peers are not split off; import "
        "the "
        "traces of all ranks of their groups\n";
  }
  text += fmt::format("  step time               {} measured, {} forecast before, {} after\n",
                      FormatSeconds(learned.measured_s), FormatSeconds(learned.before_s),
                      FormatSeconds(learned.after_s));
  return text + "\nWritten to " + learned.path + "; forecast other plans with --device-profile " +
         learned.path + "\n";
}

std::string KernelLearningJson(const KernelLearning& learned) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("profile", learned.path);
  json.Field("run", learned.run).Field("plan", learned.plan).Field("rates", learned.origin);
  json.Field("ranks", learned.ranks).Field("ops", learned.timed).Field("fused", learned.fused);
  json.Field("samples", learned.samples).Field("collectives", learned.collectives);
  if (learned.pairs) {
    json.Field("paired_share", learned.pairs->PairedShare());
    json.Field("forecast_share", learned.pairs->ForecastShare());
  }
  json.Field("step_time_s", learned.measured_s);
  json.Field("predicted_step_time_before_s", learned.before_s);
  json.Field("predicted_step_time_s", learned.after_s);
  return json.EndObject().Take();
}

}  // namespace foretrain

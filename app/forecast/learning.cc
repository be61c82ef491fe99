#include "app/forecast/learning.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "app/forecast/asked_plan.h"
#include "app/forecast/calibration.h"
#include "app/forecast/forecasting.h"
#include "app/forecast/run_log.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/check/run_causes.h"
#include "sim/config/cluster/cluster_json.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"
#include "sim/forecast/forecast.h"
#include "sim/search/evaluate/evaluator.h"
#include "traces/store.h"

namespace foretrain {
namespace {

// Model, machine and plan of the options.
Result<Measurement> OfOptions(const LearnRequest& request) {
  FT_ASSIGN(const AskedMachine machine,
            AskMachine(request.model, request.cluster, request.plan, request.dialect));
  FT_ASSIGN(const AskedPlan asked, AskPlan(machine, request.plan, request.dialect));
  Measurement out;
  out.model = machine.context.model;
  out.cluster = machine.context.cluster;
  out.plan = asked.plan;
  return out;
}

// True if the file is a store; false for one that cannot be read, or any other.
bool IsStore(const std::string& path) {
  constexpr std::string_view kHead = "SQLite format 3";
  PosixFileSystem files;
  const auto file = files.Open(path);
  if (!file) return false;
  std::array<std::byte, kHead.size()> head{};
  const auto read = (*file)->ReadAt(0, head);
  return read && *read == static_cast<std::int64_t>(kHead.size()) &&
         std::memcmp(head.data(), kHead.data(), kHead.size()) == 0;
}

// A log of the launch file's trainer: the median of its steady steps, which single slow steps do
// not move.
Result<Measurement> OfLog(const std::string& path, const LearnRequest& request) {
  const Launch& launch = *request.dialect.launch();
  FT_ASSIGN(const TrainerLog log, ReadRunLog("--from-run", path, launch));
  FT_ASSIGN(Measurement out, OfOptions(request));
  const LaunchDialect file{&request.dialect.dialect(), request.dialect.dialects(),
                           request.model.described.empty() ? request.model.model : ""};
  const RanPlan ran = RanPlanOf(log, file, out.plan, out.model, out.cluster.devices_per_node);
  const std::vector<double> seconds = StepSecondsOf(log, ran.plan);
  if (seconds.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                path + ": has no time of a step; give a log of " + log.title + " with some");
  }
  out.name = path;
  out.plan = ran.plan;
  out.step_s = SplitSteps(seconds).median_s;
  return out;
}

// The newest run of a store that has a measured step.
const RunInfo* NewestMeasured(const std::vector<RunInfo>& runs) {
  const RunInfo* newest = nullptr;
  for (const RunInfo& run : runs) {
    const bool measured = run.kind == RunKind::kMeasured || run.kind == RunKind::kImported;
    if (measured && run.Metric("step_time_s").has_value()) newest = &run;
  }
  return newest;
}

// The run that "STORE[:RUN]" names.
Result<RunInfo> FindMeasured(const StoreReader& reader, RunId id) {
  if (id != 0) return reader.FindRun(id);
  FT_ASSIGN(const std::vector<RunInfo> runs, reader.ListRuns());
  const RunInfo* newest = NewestMeasured(runs);
  if (newest == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                reader.path() +
                    ": no measured run in it; `foretrain train` or `foretrain import` "
                    "adds one");
  }
  return *newest;
}

// A stored run: its own model, machine and plan, else those of the options. Only its specs are
// read. With a launch file, other files are logs.
Result<Measurement> OfRun(const std::string& text, const LearnRequest& request,
                          const Catalogue& catalogue) {
  const std::size_t colon = text.rfind(':');
  const bool numbered = colon != std::string::npos && colon + 1 < text.size() &&
                        text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  RunId id = 0;
  if (numbered) {
    FT_ASSIGN(id, ParseInt("--from-run", text.substr(colon + 1), 1, 1'000'000'000));
  }
  const std::string path = numbered ? text.substr(0, colon) : text;
  if (!numbered && request.dialect.reads() && !IsStore(path)) return OfLog(path, request);
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path));
  FT_ASSIGN(const RunInfo info, FindMeasured(reader, id));
  const std::string where = reader.path() + ": run " + std::to_string(info.id);
  const std::optional<double> step_s = info.Metric("step_time_s");
  if (info.kind == RunKind::kPredicted || !step_s.has_value() || !(*step_s > 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                where +
                    " has no measured step time; name a run of `foretrain train` or `foretrain "
                    "import` with a complete step");
  }
  FT_ASSIGN(const StoredRun stored, reader.LoadRun(info.id, {.timeline = false}));
  const RunSpecs& specs = stored.specs;
  Measurement out;
  if (specs.plan_json.empty()) {
    if (!request.model.Given() && !request.dialect.reads() && request.plan.plan_file.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  where + " records no plan; give its --model, --cluster and --plan");
    }
    FT_ASSIGN(out, OfOptions(request));
  } else {
    FT_ASSIGN(out.model, ModelFromJson(specs.model_json, where + " model"));
    FT_ASSIGN(out.cluster, ClusterFromJson(specs.hardware_json, where + " hardware", catalogue));
    FT_ASSIGN(out.plan, PlanFromJson(specs.plan_json, where + " plan"));
    FT_TRY(ValidatePlan(out.plan, out.model));
  }
  out.name = where;
  out.step_s = *step_s;
  out.store = path;
  out.run = info.id;
  return out;
}

// The closed form, as sim/learn/learn.h uses it.
Result<double> StepOf(const MeasuredStep& step, const DeviceProfile& profile) {
  FT_ASSIGN(const CostModel costs, CostModel::Make(step.cluster, profile));
  return Evaluator(step.model, costs, AllPlanFields()).Evaluate(step.plan).step_s;
}

}  // namespace

Result<std::vector<Measurement>> ReadMeasurements(const LearnRequest& request) {
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  std::vector<Measurement> out;
  for (const std::string_view run : Split(request.runs, ',')) {
    if (run.empty()) continue;
    FT_ASSIGN(Measurement one, OfRun(std::string(run), request, catalogue));
    out.push_back(std::move(one));
  }
  if (!request.step_time.empty()) {
    FT_ASSIGN(const double step_s, ParseSeconds("--step-time", request.step_time));
    if (!(step_s > 0)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--step-time: \"" + Printable(request.step_time) + "\" must be above 0");
    }
    FT_ASSIGN(Measurement one, OfOptions(request));
    one.name = "--step-time";
    one.step_s = step_s;
    out.push_back(std::move(one));
  }
  for (const Measurement& one : out) {
    if (one.cluster.device.name == out.front().cluster.device.name) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} ran on {} and {} on {}: learn from runs of one device at a time",
                            out.front().name, out.front().cluster.device.name, one.name,
                            one.cluster.device.name));
  }
  return out;
}

// The base is the profile without what was learned before, unless --device-profile names a learned
// one: then its constants are the prior.
Result<LearnedProfile> LearnFromMeasurements(const LearnRequest& request) {
  FT_ASSIGN(std::optional<Preset> preset, request.plan.ResolvePreset());
  if (!preset) {
    FT_ASSIGN(preset, request.dialect.Software());
  }
  FT_ASSIGN(const std::vector<Measurement> measured, ReadMeasurements(request));
  std::vector<MeasuredStep> steps;
  LearnedProfile out;
  for (const Measurement& one : measured) {
    FT_ASSIGN(DeviceProfile profile,
              MakeProfile(request.cluster, one.cluster, preset, false, out.origin));
    steps.push_back({one.model, one.cluster, std::move(profile), one.plan, one.step_s});
  }
  FT_ASSIGN(out.learned, LearnFrom(steps, HardwareThreads()));
  const ClusterSpec& cluster = steps.front().cluster;
  const std::string system = preset && !cluster.is_cpu ? preset->name : "";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    DeviceProfile profile = steps[i].profile;
    FT_ASSIGN(const double before_s, StepOf(steps[i], profile));
    ApplyLearned(out.learned, system, profile);
    FT_ASSIGN(const double after_s, StepOf(steps[i], profile));
    out.runs.push_back(
        {measured[i].name, Describe(steps[i].plan), steps[i].step_s, before_s, after_s});
  }
  DeviceProfile profile = steps.front().profile;
  out.device = cluster.device.name;
  out.error_before = profile.error;
  ApplyLearned(out.learned, system, profile);
  profile.assumptions = fmt::format("learned from {} measured runs", out.learned.runs);
  out.path = request.out.empty() ? LearnedProfilePath(cluster.device.name, system) : request.out;
  FT_TRY(WriteProfile(out.path, profile));
  return out;
}

std::string LearnedProfileText(const LearnedProfile& profile) {
  std::string text = fmt::format("{}, rates {}\n\n", profile.device, profile.origin);
  Table runs({"run", "plan", ">measured", ">forecast before", ">after"});
  for (const LearnedRun& run : profile.runs) {
    runs.AddRow({run.name, run.plan, FormatSeconds(run.measured_s), FormatSeconds(run.before_s),
                 FormatSeconds(run.after_s)});
  }
  Table constants({"constant", ">moved", ">known to", ">before"});
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    constants.AddRow(
        {std::string(LearnedConstants()[c].name), fmt::format("{:+.3f}", profile.learned.by[c]),
         fmt::format("{:.3f}", std::sqrt(profile.learned.covariance[c * kLearnedConstants + c])),
         fmt::format("{:.3f}", LearnedConstants()[c].known_to)});
  }
  return text + runs.Text() +
         fmt::format(
             "\nerror of a forecast (one standard deviation): {:.1f} %, before {:.1f} %\n\n",
             100 * profile.learned.error, 100 * profile.error_before) +
         constants.Text() + "\nWritten to " + profile.path + "\n";
}

std::string LearnedProfileJson(const LearnedProfile& profile) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("profile", profile.path);
  json.Field("device", profile.device).Field("rates", profile.origin);
  json.Field("runs_learned", profile.learned.runs);
  json.Field("relative_error_before", profile.error_before);
  json.Field("relative_error", profile.learned.error);
  json.Name("runs").BeginArray();
  for (const LearnedRun& run : profile.runs) {
    json.BeginObject().Field("run", run.name).Field("plan", run.plan);
    json.Field("step_time_s", run.measured_s).Field("predicted_step_time_before_s", run.before_s);
    json.Field("predicted_step_time_s", run.after_s).EndObject();
  }
  json.EndArray().Name("constants").BeginArray();
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    json.BeginObject().Field("constant", LearnedConstants()[c].name);
    json.Field("move", profile.learned.by[c]);
    json.Field("known_to", std::sqrt(profile.learned.covariance[c * kLearnedConstants + c]));
    json.EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace foretrain

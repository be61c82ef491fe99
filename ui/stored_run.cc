#include "ui/stored_run.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "base/json/json.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_json.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"
#include "sim/cost/step_flops.h"

namespace foretrain {
namespace {

// The part of a run's specs that could be read.
struct ReadSpecs {
  std::optional<ModelSpec> model;
  std::optional<Plan> plan;
  std::int64_t device_bytes = 0;
};

// 0 if the hardware cannot be read: the view then leaves out capacity.
std::int64_t DeviceBytesOf(const std::string& json) {
  const auto catalogue = BuiltInCatalogue();
  if (!catalogue.has_value()) return 0;
  const auto cluster = ClusterFromJson(json, "hardware", *catalogue);
  return cluster.has_value() ? cluster->device.memory_bytes : 0;
}

// Each part is read by itself, so that one damaged part does not hide the others.
ReadSpecs SpecsOf(const RunSpecs& specs) {
  ReadSpecs read;
  if (!specs.model_json.empty()) {
    auto model = ModelFromJson(specs.model_json, "model");
    if (model.has_value()) read.model = *std::move(model);
  }
  if (!specs.plan_json.empty()) {
    auto plan = PlanFromJson(specs.plan_json, "plan");
    if (plan.has_value()) read.plan = *std::move(plan);
  }
  if (!specs.hardware_json.empty()) read.device_bytes = DeviceBytesOf(specs.hardware_json);
  return read;
}

// The options that the specs allow. Metrics whose inputs are missing stay empty.
MetricOptions OptionsOf(const ReadSpecs& specs, int world) {
  MetricOptions options;
  if (!specs.plan.has_value()) return options;
  const Plan& plan = *specs.plan;
  options.tokens_per_step =
      static_cast<double>(plan.global_batch) * static_cast<double>(plan.sequence);
  if (plan.pp > 0 && world > 0 && world % plan.pp == 0) {
    options.pipelines = PipelinesOf(world, plan.pp);
  }
  if (specs.model.has_value()) {
    const StepFlops flops = FlopsOfStep(*specs.model, plan);
    options.model_flops_per_step = flops.model;
    options.hardware_flops_per_step = flops.hardware;
  }
  return options;
}

// Steps with a window on any rank.
int StepsIn(const Timeline& timeline) {
  std::set<std::int32_t> steps;
  for (const StepWindow& window : timeline.steps) steps.insert(window.step);
  return static_cast<int>(steps.size());
}

bool IsEmulated(const std::string& details_json) {
  if (details_json.empty()) return false;
  const auto details = ParseJson(details_json, "details");
  if (!details.has_value() || details->kind() != JsonValue::Kind::kObject) return false;
  const JsonValue* const emulated = details->Find("emulated");
  return emulated != nullptr && emulated->kind() == JsonValue::Kind::kBool && emulated->AsBool();
}

// The cost of recording as a share of all steps' time; `nullopt` if it was not measured.
std::optional<double> OverheadOf(const RecordingTotals& totals, const Timeline& timeline) {
  std::int64_t steps_ns = 0;
  for (const StepWindow& window : timeline.steps) steps_ns += window.end_ns - window.start_ns;
  if (totals.overhead_ns <= 0 || steps_ns <= 0) return std::nullopt;
  return static_cast<double>(totals.overhead_ns) / static_cast<double>(steps_ns);
}

}  // namespace

// If `metrics` is absent, its options come from the specs that can be read. The first step of a
// measured run warms up; a forecast shows its last step, which is steady.
RunView RunViewOf(StoredRun run, const std::optional<MetricOptions>& metrics) {
  const ReadSpecs specs = SpecsOf(run.specs);
  RunView view;
  view.timeline = std::move(run.timeline);
  DeriveSteps(view.timeline);
  view.label =
      fmt::format("run {}{}{}", run.info.id, run.info.label.empty() ? "" : ": ", run.info.label);
  view.is_measurement = run.info.kind != RunKind::kPredicted;
  view.metrics = metrics.has_value() ? *metrics : OptionsOf(specs, view.timeline.world);
  const int steps = StepsIn(view.timeline);
  if (view.metrics.pipelines.empty()) view.metrics.pipelines = PipelinesIn(run.details_json);
  if (!metrics.has_value()) {
    const bool forecast = run.info.kind == RunKind::kPredicted;
    // A trace begins where its profiler's warm-up ended.
    const bool imported = run.info.kind == RunKind::kImported;
    view.metrics.warmup_steps = forecast ? steps - 1 : (steps > 1 && !imported ? 1 : 0);
  }
  if (specs.model.has_value()) view.layers = static_cast<int>(specs.model->AllLayers());
  if (run.info.program_hash != 0) view.program_hash = fmt::format("{:016x}", run.info.program_hash);
  if (specs.device_bytes > 0) view.device_bytes = specs.device_bytes;
  view.emulated = IsEmulated(run.details_json);
  view.kernels = std::move(run.kernels);
  view.dropped = run.info.totals.dropped;
  view.invalid = run.info.totals.invalid;
  if (run.info.totals.clock_error_ns > 0) view.clock_error_ns = run.info.totals.clock_error_ns;
  std::vector<GpuCounter> counters = GpuCountersOf(run.counters);
  if (!counters.empty()) {
    view.gpu_counters = std::make_shared<const std::vector<GpuCounter>>(std::move(counters));
  }
  view.overhead = OverheadOf(run.info.totals, view.timeline);
  return view;
}

}  // namespace foretrain

#include "tests/ui/golden_states.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/metric_options.h"
#include "sim/cost/network/communication_groups.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "tests/ui/hand_made.h"
#include "tests/ui/many_spans.h"
#include "tests/ui/sample_run.h"

namespace foretrain {
namespace {

// 60,000 spans on 32 ranks, of which none is read yet.
CompareInput Big() {
  RunView run = ManySpans(60'000, 1);
  SpanSummer summer(static_cast<std::int64_t>(run.timeline.spans.size()));
  for (const Span& span : run.timeline.spans) {
    summer.Add(span.rank, span.queue, span.start_ns, span.end_ns, WorkOf(span.op, span.op_class));
  }
  run.sums = std::make_shared<const SpanSums>(summer.Take());
  run.timeline.spans.clear();
  run.label = "run 3: llama-1.3b dp4 pp8";
  run.is_measurement = true;
  run.dropped = 12;
  return {.measured = std::move(run)};
}

// A trace that was paired with a forecast by structure.
CompareInput Imported() {
  CompareInput input = SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4});
  input.measured->program_hash.clear();
  input.measured->label = "run 2: PyTorch 2.15, a trace of four ranks of a data-parallel group";
  input.measured->is_measurement = true;
  input.measured->clock_error_ns = 12'000;
  input.measured->structure = StructuralPairs{.kernels = 800,
                                              .paired_kernels = 700,
                                              .ops = 720,
                                              .paired_ops = 700,
                                              .traced_ns = 1000,
                                              .paired_ns = 930,
                                              .forecast_ns = 1000,
                                              .forecast_paired_ns = 960,
                                              .repeated_ns = 900,
                                              .steady_ns = 700};
  return input;
}

Plan LargePlan(int dp, int tp, int pp, int ep, std::int64_t batch, std::int64_t sequence) {
  Plan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  plan.ep = ep;
  plan.global_batch = batch;
  plan.micro_batch = 1;
  plan.sequence = sequence;
  plan.precision = Precision::kBf16;
  return plan;
}

}  // namespace

RunView ForecastRun(const std::string& model, const std::string& cluster, const Plan& plan) {
  RunView run;
  const auto catalogue = BuiltInCatalogue();
  const ModelSpec spec = ResolveModel(model, "test", *catalogue)->model;
  const ClusterSpec machine = *ParseCluster(cluster, *catalogue);
  const DeviceProfile profile = DeriveProfile(machine);
  const auto costs = CostModel::Make(machine, profile);
  if (!costs.has_value()) {
    ADD_FAILURE() << costs.error().message;
    return run;
  }
  auto forecast = MakeForecast(spec, plan, *costs,
                               {.ranks = RankChoice::kFirst,
                                .simulate = {.min_steps = 1, .max_steps = 2, .last_step = true}});
  if (!forecast.has_value()) {
    ADD_FAILURE() << forecast.error().message;
    return run;
  }
  run.timeline = std::move(forecast->simulation.timeline);
  DeriveSteps(run.timeline);
  run.model = spec.name;
  run.label = "run 1: " + spec.name + " " + Describe(plan);
  run.metrics = MetricOptionsFor(spec, *costs, plan, 0);
  run.layers = static_cast<int>(spec.layers);
  run.stands_for_rank.assign(forecast->program.stands_for.begin(),
                             forecast->program.stands_for.end());
  run.setting = std::make_shared<const RunSetting>(RunSetting{spec, machine, profile, plan});
  run.groups = CommunicationGroupsOf(plan);
  run.device_bytes = machine.device.memory_bytes;
  run.program_hash = model;
  return run;
}

std::vector<GoldenState> GoldenStates() {
  RunView empty = RunOfSpans({});
  empty.label = "run 1: empty";
  empty.is_measurement = true;
  CompareInput demo =
      SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4, .counters = true});
  demo.measured->is_measurement = true;
  return {
      {"none", {}},
      {"empty", {.measured = std::move(empty)}},
      {"demo", std::move(demo)},
      {"big", Big()},
      {"imported", Imported()},
      {"forecast",
       {.predicted = ForecastRun("llama3.1-405b", "256x8xh100-80gb-sxm",
                                 LargePlan(16, 8, 16, 1, 256, 8192))}},
      {"deepseek-v3",
       {.predicted = ForecastRun("deepseek-v3", "128x8xh100-80gb-sxm",
                                 LargePlan(64, 1, 16, 64, 1024, 4096))}},
  };
}

}  // namespace foretrain

#include "sim/search/advice/single_changes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/config/plan/plan_fields.h"
#include "sim/cost/metric_options.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/device_use.h"
#include "sim/memory/host_memory.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

// Maximum number of changes that are simulated.
constexpr int kMaxTried = 12;
// Maximum block passes that are simulated in total, so that a report takes a few seconds.
constexpr double kMaxPasses = 24'000;

double PassesOf(const ModelSpec& model, const Plan& plan) {
  return static_cast<double>(plan.MicroBatches()) * static_cast<double>(model.AllLayers() + 2) * 3;
}

// "--dp 4 --pp 1": the options in which `to` differs from `from`.
std::string OptionsBetween(const Plan& from, const Plan& to) {
  std::string text;
  for (const PlanField& field : PlanFields()) {
    const std::string value = TextOf(field, to);
    if (value == TextOf(field, from)) continue;
    if (!text.empty()) text += " ";
    text += FirstOption(field);
    text += (field.type == PlanFieldType::kFlag ? "=" : " ") + value;
  }
  return text;
}

// Sets the fields that have only one valid value after the change, so that one option more does not
// make the plan invalid.
void SetWhatFollows(const Plan& from, Plan& plan) {
  const bool other_shape = plan.schedule == ScheduleKind::kCustom &&
                           (plan.slots.empty() || plan.slots.ranks() != plan.pp ||
                            plan.slots.micro_batches() != plan.MicroBatches());
  if (plan.pp == 1 || other_shape) {
    plan.schedule = ScheduleKind::k1f1b;
    plan.slots = {};
  }
  if (plan.schedule != ScheduleKind::kInterleaved) {
    plan.vpp = 1;
  } else if (plan.vpp == 1) {
    plan.vpp = 2;
  }
  if (plan.pp != from.pp || plan.Chunks() != from.Chunks()) plan.stage_layers.clear();
  if (plan.recompute != RecomputeKind::kSelective) plan.recompute_modules = 0;
  if (plan.recompute == RecomputeKind::kNone) {
    plan.recompute_layers = 0;
    plan.recompute_every = 1;
  }
  if (plan.tp == 1) {
    plan.sequence_parallel = plan.vocab_parallel = false;
    plan.tp_tiles = 1;
  }
  while (plan.micro_batch > 1 && plan.global_batch % (plan.micro_batch * plan.dp) != 0) {
    plan.micro_batch /= 2;
  }
}

class Changes {
 public:
  Changes(const ModelSpec& model, const Plan& plan) : model_(model), from_(plan) {}

  void Add(Plan plan, bool other_numbers = false) {
    SetWhatFollows(from_, plan);
    const auto same = [&](const SingleChange& other) { return other.plan == plan; };
    if (plan == from_ || std::any_of(list_.begin(), list_.end(), same)) return;
    if (plan.MicroBatches() < 1 || !ValidatePlan(plan, model_)) return;
    list_.push_back({OptionsBetween(from_, plan), plan, other_numbers});
  }
  void AddValues(std::string_view field, const std::vector<std::int64_t>& values) {
    const PlanField& of = PlanFieldOf(field);
    for (const std::int64_t value : values) {
      Plan plan = from_;
      of.set(plan, value);
      Add(std::move(plan));
    }
  }
  // Adds every plan with one degree doubled and another halved.
  void AddSplits() {
    constexpr std::array<int Plan::*, 4> kDegrees = {&Plan::dp, &Plan::tp, &Plan::pp, &Plan::cp};
    for (int Plan::*more : kDegrees) {
      for (int Plan::*less : kDegrees) {
        if (more == less || from_.*less % 2 != 0) continue;
        Plan plan = from_;
        plan.*more *= 2;
        plan.*less /= 2;
        Add(std::move(plan));
      }
    }
  }
  std::vector<SingleChange> Take() { return std::move(list_); }

 private:
  const ModelSpec& model_;
  const Plan& from_;
  std::vector<SingleChange> list_;
};

bool IsDegree(std::string_view field) {
  constexpr std::array<std::string_view, 5> kDegrees = {"dp", "cp", "tp", "pp", "ep"};
  return std::find(kDegrees.begin(), kDegrees.end(), field) != kDegrees.end();
}

}  // namespace

Result<PlanForecast> ForecastPlan(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                                  int threads) {
  ForecastOptions options;
  options.ranks = costs.cluster().is_cpu ? RankChoice::kAll : RankChoice::kClasses;
  options.simulate.threads = threads;
  options.simulate.last_step = true;
  FT_ASSIGN(const Forecast forecast, MakeForecast(model, plan, costs, options));
  const Metrics metrics =
      ComputeMetrics(forecast.simulation.timeline,
                     MetricOptionsFor(model, costs, plan, forecast.simulation.steps - 1));
  PlanForecast out;
  out.step_s = forecast.simulation.step_s;
  out.interval = forecast.Interval();
  if (metrics.overall) out.classes = metrics.overall->classes;
  out.device_bytes = FullestDeviceOf(model, forecast.program, forecast.memory, costs.cluster(),
                                     costs.profile().system)
                         .memory.Needed();
  const SystemOptions& system = costs.profile().system;
  const int on_node = std::min(costs.cluster().devices_per_node, plan.World());
  for (const RankProgram& rank : forecast.program.ranks) {
    const HostMemory host = HostMemoryOf(model, forecast.program, rank, costs.cluster(), system);
    out.host_bytes = std::max(out.host_bytes, NodeMemoryOf(host, on_node).Peak());
  }
  return out;
}

// The list starts from DefaultSpace, so that a choice added there is tried here without further
// code.
std::vector<SingleChange> SingleChangesOf(const ModelSpec& model, const ClusterSpec& cluster,
                                          const Plan& plan) {
  Changes changes(model, plan);
  for (const SearchChoice& choice : DefaultSpace(model, cluster, plan.World(), plan).choices) {
    if (!IsDegree(choice.field->name)) changes.AddValues(choice.field->name, choice.values);
  }
  changes.AddSplits();
  changes.AddValues("bucket_bytes", {5'000'000, 25'000'000, 100'000'000});
  for (const std::string_view part :
       {"offload_optimizer", "offload_gradients", "offload_parameters", "offload_activations"}) {
    changes.AddValues(part, {static_cast<std::int64_t>(OffloadTarget::kNone)});
  }
  for (const std::string_view pieces : {"loss_chunks", "mlp_tiles"}) changes.AddValues(pieces, {1});
  if (cluster.is_cpu) return changes.Take();
  changes.AddValues("fuse", {static_cast<std::int64_t>(FusionKind::kAll)});
  changes.AddValues("attention", {static_cast<std::int64_t>(AttentionAlgorithm::kFlash)});
  if (plan.precision < Precision::kFp16) {
    Plan shorter = plan;
    shorter.precision = DefaultPrecision(cluster);
    changes.Add(std::move(shorter), /*other_numbers=*/true);
  }
  return changes.Take();
}

// The closed form ranks all changes and only the promising ones are simulated. A change is
// promising if it fits and is at most kSimulatedMargin slower than the plan in closed form.
Result<TriedChanges> TrySingleChanges(const ModelSpec& model, const CostModel& costs,
                                      const Plan& plan, int threads) {
  TriedChanges out;
  FT_ASSIGN(out.as_is, ForecastPlan(model, costs, plan, threads));
  const std::int64_t room = costs.cluster().device.memory_bytes;
  const std::int64_t host_room = HostShareOf(costs.cluster(), costs.profile().system);
  Evaluator evaluator(model, costs, AllPlanFields());
  // Changes slower than this in closed form are not expected to be faster in simulation.
  const double slowest_s = evaluator.Evaluate(plan).step_s * (1 + kSimulatedMargin);
  std::vector<std::pair<double, SingleChange>> candidates;
  for (SingleChange& change : SingleChangesOf(model, costs.cluster(), plan)) {
    ++out.compared;
    const Evaluation estimate = evaluator.Evaluate(change.plan);
    const bool fits =
        estimate.memory_bytes <= room && (host_room == 0 || estimate.host_bytes <= host_room);
    if (fits && estimate.step_s <= slowest_s) {
      candidates.emplace_back(estimate.step_s, std::move(change));
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // The best candidates first, until the number or the work of simulations reaches its limit.
  double passes = PassesOf(model, plan);
  for (auto& [estimate_s, change] : candidates) {
    if (out.simulated == kMaxTried) break;
    passes += PassesOf(model, change.plan);
    if (out.simulated > 0 && passes > kMaxPasses) break;
    ++out.simulated;
    const auto forecast = ForecastPlan(model, costs, change.plan, threads);
    // A change that cannot be compiled, or whose ranks deadlock, is no suggestion.
    if (!forecast || forecast->device_bytes > room) continue;
    if (forecast->step_s > out.as_is.step_s * (1 - kWorthTrying)) continue;
    out.faster.push_back({std::move(change), *forecast});
  }
  std::stable_sort(out.faster.begin(), out.faster.end(),
                   [](const TriedChange& a, const TriedChange& b) {
                     return a.forecast.step_s < b.forecast.step_s;
                   });
  return out;
}

}  // namespace foretrain

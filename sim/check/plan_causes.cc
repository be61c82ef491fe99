#include "sim/check/plan_causes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "sim/config/launch/launch_facts.h"
#include "sim/cost/network/plan_place.h"
#include "sim/memory/host_memory.h"
#include "sim/search/evaluate/evaluator.h"

namespace foretrain {
namespace {

struct CauseText {
  std::string_view name, text;
};
constexpr std::array<CauseText, kCauseKinds> kCauseTexts = {{
    {"micro-batch", "the micro-batch is small"},
    {"tp-across-nodes", "tensor parallelism leaves the links of a node"},
    {"gradient-overlap", "gradients are not reduced during the backward"},
    {"tp-overlap", "tensor-parallel communication does not overlap with products"},
    {"sharding", "parameters are sharded more than memory needs"},
    {"recomputation", "more is recomputed than memory needs"},
    {"pipeline", "the pipeline waits"},
    {"split", "the model is split more than memory needs"},
    {"offload", "state is offloaded that fits on the device"},
    {"kernels", "kernels are not fused"},
    {"data-loader", "the data loader is late"},
    {"throttling", "the GPUs slow down during the run"},
    {"pauses", "the run pauses now and then"},
    {"slow-compute", "computing takes longer than the forecast"},
    {"not-explained", "nothing in the log says why"},
}};

// The launch file's keys and what it cannot say.
Result<WrittenLaunch> Written(const LaunchDialect& launch, const ModelSpec& model,
                              int devices_per_node, const Plan& plan) {
  return WriteLaunch(*launch.dialect, launch.dialects, plan, model, launch.model_name,
                     devices_per_node);
}

std::string Spelled(LaunchSyntax syntax, const std::string& key, const std::string& value) {
  if (syntax != LaunchSyntax::kShell) return key + " = " + value;
  return value == "true" ? "--" + key : "--" + key + " " + value;
}

bool IsLauncherKey(std::string_view key) { return key.starts_with("launcher."); }

// Candidates that the closed form finds faster, fastest first.
struct FasterChange {
  double step_s = 0;
  CauseKind kind = CauseKind::kMicroBatch;
  SingleChange change;
};

std::vector<SingleChange> ChangesFor(const ModelSpec& model, const ClusterSpec& cluster,
                                     const Dialect& dialect, const Plan& plan) {
  std::vector<SingleChange> changes = SingleChangesOf(model, cluster, plan);
  const DialectBuckets& buckets = dialect.buckets;
  if (buckets.without_overlap_bytes == 0) return changes;
  // The trainer's own bucket, so that one switch of its file suffices.
  SingleChange usual{"--bucket " + std::to_string(UsualBucketBytes(buckets, plan.dp)), plan};
  usual.plan.bucket_bytes = UsualBucketBytes(buckets, plan.dp);
  std::erase_if(changes, [&](const SingleChange& change) {
    return change.plan.bucket_bytes != plan.bucket_bytes;
  });
  if (usual.plan != plan) changes.push_back(std::move(usual));
  return changes;
}

std::vector<FasterChange> FasterOnes(const ModelSpec& model, const CostModel& costs,
                                     const Dialect& dialect, const Plan& plan,
                                     const std::set<CauseKind>& taken, std::int64_t memory_bytes) {
  const std::int64_t host_room = HostShareOf(costs.cluster(), costs.profile().system);
  Evaluator evaluator(model, costs, AllPlanFields());
  const double now_s = evaluator.Evaluate(plan).step_s;
  std::vector<FasterChange> candidates;
  for (SingleChange& change : ChangesFor(model, costs.cluster(), dialect, plan)) {
    if (change.other_numbers) continue;
    const auto kind = CauseOf(costs.cluster(), costs.fabric(), plan, change.plan);
    if (!kind || taken.contains(*kind)) continue;
    const Evaluation estimate = evaluator.Evaluate(change.plan);
    const bool fits = estimate.memory_bytes <= memory_bytes &&
                      (host_room == 0 || estimate.host_bytes <= host_room);
    if (!fits || estimate.step_s > now_s * (1 - kWorthTrying)) continue;
    candidates.push_back({estimate.step_s, *kind, std::move(change)});
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const FasterChange& a, const FasterChange& b) { return a.step_s < b.step_s; });
  return candidates;
}

}  // namespace

std::string_view Name(CauseKind kind) { return kCauseTexts[static_cast<std::size_t>(kind)].name; }
std::string_view TextOf(CauseKind kind) { return kCauseTexts[static_cast<std::size_t>(kind)].text; }

// One change has one cause, by the first of these that differs.
std::optional<CauseKind> CauseOf(const ClusterSpec& cluster, const Fabric& fabric, const Plan& from,
                                 const Plan& to) {
  if (to.cp > from.cp) return std::nullopt;
  if (to.tp < from.tp) {
    for (const DegreePlace& place : PlacesOf(cluster, fabric, from)) {
      if (place.degree == "tp" && !place.place.IsWithinLinks()) return CauseKind::kTpAcrossNodes;
    }
    return CauseKind::kSplit;
  }
  if (to.tp > from.tp) return std::nullopt;
  if (to.pp != from.pp) return to.pp < from.pp ? std::optional(CauseKind::kPipeline) : std::nullopt;
  if (to.cp != from.cp) return to.cp < from.cp ? std::optional(CauseKind::kSplit) : std::nullopt;
  if (to.ep != from.ep) return to.ep < from.ep ? std::optional(CauseKind::kSplit) : std::nullopt;
  if (to.micro_batch != from.micro_batch) {
    return to.micro_batch > from.micro_batch ? std::optional(CauseKind::kMicroBatch) : std::nullopt;
  }
  if (to.schedule != from.schedule || to.vpp != from.vpp) return CauseKind::kPipeline;
  if (to.bucket_bytes != from.bucket_bytes) {
    return to.bucket_bytes < from.bucket_bytes ? std::optional(CauseKind::kGradientOverlap)
                                               : std::nullopt;
  }
  if (to.tp_tiles != from.tp_tiles) return CauseKind::kTpOverlap;
  if (to.recompute != from.recompute || to.recompute_modules != from.recompute_modules ||
      to.recompute_layers != from.recompute_layers || to.recompute_every != from.recompute_every) {
    return CauseKind::kRecompute;
  }
  if (to.zero_stage > from.zero_stage) return std::nullopt;
  if (to.zero_stage < from.zero_stage || to.replicas != from.replicas ||
      to.prefetch_depth != from.prefetch_depth || to.gather_bytes != from.gather_bytes) {
    return CauseKind::kSharding;
  }
  if (to.offload_optimizer != from.offload_optimizer ||
      to.offload_gradients != from.offload_gradients ||
      to.offload_parameters != from.offload_parameters ||
      to.offload_activations != from.offload_activations) {
    return CauseKind::kOffload;
  }
  if (to.fuse != from.fuse || to.attention != from.attention || to.mlp_tiles != from.mlp_tiles ||
      to.loss_chunks != from.loss_chunks) {
    return CauseKind::kKernels;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> KeysBetween(const LaunchDialect& launch, const ModelSpec& model,
                                             int devices_per_node, const Plan& from,
                                             const Plan& to) {
  FT_ASSIGN(const WrittenLaunch before, Written(launch, model, devices_per_node, from));
  FT_ASSIGN(const WrittenLaunch after, Written(launch, model, devices_per_node, to));
  const std::set<std::string> unsaid(before.unsaid.begin(), before.unsaid.end());
  for (const std::string& one : after.unsaid) {
    if (!unsaid.contains(one)) {
      return Fail(ErrorCode::kUnsupported, launch.dialect->title + " does not say " + one);
    }
  }
  const LaunchSyntax syntax = launch.dialect->syntax;
  std::map<std::string, std::string> old;
  for (const LaunchItem& entry : before.entries) old[entry.key] = entry.value;
  std::vector<std::string> keys;
  for (const LaunchItem& entry : after.entries) {
    const auto known = old.find(entry.key);
    const bool same = known != old.end() && known->second == entry.value;
    if (known != old.end()) old.erase(known);
    if (same || IsLauncherKey(entry.key)) continue;
    keys.push_back(Spelled(syntax, entry.key, entry.value));
  }
  for (const auto& [key, value] : old) {
    if (IsLauncherKey(key)) continue;
    keys.push_back("without " + (syntax == LaunchSyntax::kShell ? "--" + key : key));
  }
  return keys;
}

// The closed form ranks, a simulation decides. Candidates that the file cannot say are passed over.
// A weakness that takes several steps, such as tp 16 on nodes of 4, is one cause.
Result<PlanCauses> FindPlanCauses(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                                  const LaunchDialect& launch, std::int64_t memory_bytes,
                                  int threads) {
  constexpr int kMaxSimulated = 3;  // candidates of one round
  constexpr int kMaxRounds = 2 * kMaxPlanCauses;
  PlanCauses out;
  FT_ASSIGN(out.as_is, ForecastPlan(model, costs, plan, threads));
  const int per_node = costs.cluster().devices_per_node;
  std::vector<Plan> starts;  // the plan before each cause
  std::set<CauseKind> closed;
  Plan now = plan;
  double now_s = out.as_is.step_s;
  for (int round = 0; round < kMaxRounds; ++round) {
    std::optional<PlanCause> best;
    int simulated = 0;
    for (FasterChange& one : FasterOnes(model, costs, *launch.dialect, now, closed, memory_bytes)) {
      if (simulated == kMaxSimulated) break;
      const bool goes_on = !out.causes.empty() && out.causes.back().kind == one.kind;
      if (!goes_on && static_cast<int>(out.causes.size()) == kMaxPlanCauses) continue;
      const Plan& start = goes_on ? starts.back() : now;
      auto keys = KeysBetween(launch, model, per_node, start, one.change.plan);
      if (!keys || keys->empty()) continue;
      ++simulated;
      const auto forecast = ForecastPlan(model, costs, one.change.plan, threads);
      if (!forecast || forecast->device_bytes > memory_bytes) continue;
      if (forecast->step_s > now_s * (1 - kWorthTrying)) continue;
      if (best && best->step_s <= forecast->step_s) continue;
      best = PlanCause{one.kind,        one.change.options, *std::move(keys),
                       one.change.plan, forecast->step_s,   now_s - forecast->step_s};
    }
    if (!best) break;
    if (!out.causes.empty() && out.causes.back().kind == best->kind) {
      best->saved_s += out.causes.back().saved_s;
      best->options = out.causes.back().options + " " + best->options;
      out.causes.back() = *best;
    } else {
      if (!out.causes.empty()) closed.insert(out.causes.back().kind);
      starts.push_back(now);
      out.causes.push_back(*best);
    }
    now = best->plan;
    now_s = best->step_s;
  }
  return out;
}

}  // namespace foretrain

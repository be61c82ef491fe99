#include "sim/spec/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace foretrain {
namespace {

std::string VppNeedsInterleaving(const Plan& plan) {
  if (plan.vpp == 1 || plan.schedule == ScheduleKind::kInterleaved) return {};
  return fmt::format(
      "vpp {} with schedule {}: only the schedule interleaved has chunks; use schedule interleaved "
      "or vpp 1",
      plan.vpp, Name(plan.schedule));
}

std::string FractionNeedsOffload(const Plan& plan) {
  if (plan.offload_fraction == 1.0 || plan.offload_optimizer != OffloadTarget::kNone) return {};
  return fmt::format(
      "offload_fraction {} with offload_optimizer none: it is a share of offloaded state; use "
      "offload_optimizer host or offload_fraction 1",
      plan.offload_fraction);
}

std::string StreamNeedsOffload(const Plan& plan) {
  if (!plan.stream_optimizer || plan.offload_optimizer != OffloadTarget::kNone) return {};
  return "stream_optimizer with offload_optimizer none: state that lies on the device is updated "
         "there; use offload_optimizer host or leave stream_optimizer out";
}

std::string DelayNeedsHostUpdate(const Plan& plan) {
  if (!plan.delayed_update) return {};
  if (plan.offload_optimizer == OffloadTarget::kNone) {
    return "delayed_update with offload_optimizer none: only the host's processors can update "
           "beside the next step; use offload_optimizer host or leave delayed_update out";
  }
  if (plan.stream_optimizer) {
    return "delayed_update with stream_optimizer: the device is busy with the next step; leave one "
           "of them out";
  }
  if (plan.offload_fraction == 1.0) return {};
  return fmt::format(
      "delayed_update with offload_fraction {}: all parameters must miss the same gradient; use "
      "offload_fraction 1",
      plan.offload_fraction);
}

// Rounds of micro-batches, each of at least pp, that all have as many.
std::string InterleavingNeedsWholeRounds(const Plan& plan) {
  if (plan.schedule != ScheduleKind::kInterleaved) return {};
  const std::int64_t m = plan.MicroBatches();
  const std::int64_t rounds = std::max<std::int64_t>(1, m / plan.pp);
  if (m % rounds == 0) return {};
  const std::int64_t unit = plan.dp * plan.micro_batch;
  return fmt::format(
      "schedule interleaved with pp {} and {} micro-batches: they must be a multiple of pp; "
      "nearest "
      "global_batch: {} or {}",
      plan.pp, m, rounds * plan.pp * unit, (rounds + 1) * plan.pp * unit);
}

std::string TwoWaysNeedMicroBatches(const Plan& plan) {
  const bool both_ways = plan.schedule == ScheduleKind::kDualPipe;
  if (!both_ways && plan.schedule != ScheduleKind::kDualPipeV) return {};
  const std::int64_t m = plan.MicroBatches();
  const std::int64_t unit = plan.dp * plan.micro_batch;
  if (m < 2 * plan.pp) {
    return fmt::format(
        "schedule {} with pp {} and {} micro-batches: it needs at least {}; use global_batch {} or "
        "schedule 1f1b",
        Name(plan.schedule), plan.pp, m, 2 * plan.pp, 2 * plan.pp * unit);
  }
  if (both_ways && plan.pp % 2 != 0) {
    return fmt::format("schedule dualpipe with pp {}: it needs an even pp; nearest: {}", plan.pp,
                       plan.pp + 1);
  }
  if (both_ways && m % 2 != 0) {
    return fmt::format(
        "schedule dualpipe with {} micro-batches: half of them go either way; nearest "
        "global_batch: {}",
        m, (m + 1) * unit);
  }
  return {};
}

// The two ranks that hold a stage run it for unlike micro-batches, so they never gather its
// parameters or scatter its gradients together.
std::string DualPipeKeepsWholeParameters(const Plan& plan) {
  if (plan.schedule != ScheduleKind::kDualPipe || plan.zero_stage < 2) return {};
  return fmt::format(
      "schedule dualpipe with zero_stage {}: both holders of a stage would have to use it at once; "
      "use zero_stage 1 or schedule dualpipe-v",
      plan.zero_stage);
}

std::string StagesNeedLayers(const Plan& plan, const ModelSpec& model) {
  const int stages = plan.Stages();
  if (!plan.stage_layers.empty()) {
    std::int64_t sum = 0;
    for (const int layers : plan.stage_layers) sum += layers;
    const auto count = static_cast<int>(plan.stage_layers.size());
    if (count == stages && sum == model.layers) return {};
    return fmt::format(
        "stage_layers {}: gives {} layers to {} stages; the model has {} layers and the plan {} "
        "stages",
        fmt::join(plan.stage_layers, ","), sum, count, model.layers, stages);
  }
  if (stages <= model.layers) return {};
  return fmt::format(
      "schedule {} with pp {} cuts the model into {} stages and it has {} layers; use at most pp "
      "{}",
      Name(plan.schedule), plan.pp, stages, model.layers,
      std::max<std::int64_t>(1, model.layers * plan.pp / stages));
}

std::string ParametersNeedUpdatesAway(const Plan& plan) {
  if (plan.offload_parameters == OffloadTarget::kNone) return {};
  const std::string what = fmt::format("offload_parameters {}", Name(plan.offload_parameters));
  if (plan.offload_optimizer == OffloadTarget::kNone || plan.offload_fraction != 1.0) {
    return fmt::format(
        "{} with offload_optimizer {} and offload_fraction {}: updates of parameters that are not "
        "on the device bring all state in; use offload_optimizer host and offload_fraction 1",
        what, Name(plan.offload_optimizer), plan.offload_fraction);
  }
  if (plan.delayed_update) {
    return what +
           " with delayed_update: the step that runs beside the update reads what it "
           "changes; leave delayed_update out";
  }
  if (plan.DataParallel() == 1 || plan.zero_stage == 3) return {};
  return fmt::format(
      "{} with zero_stage {} on {} data-parallel ranks: each host would hold all parameters; use "
      "zero_stage 3",
      what, plan.zero_stage, plan.DataParallel());
}

}  // namespace

std::span<const PlanRule> PlanRules() {
  static const std::vector<PlanRule> rules = {
      {"vpp-needs-interleaving", VppNeedsInterleaving},
      {"interleaving-needs-whole-rounds", InterleavingNeedsWholeRounds},
      {"two-ways-need-micro-batches", TwoWaysNeedMicroBatches},
      {"dualpipe-keeps-whole-parameters", DualPipeKeepsWholeParameters},
      {"fraction-needs-offload", FractionNeedsOffload},
      {"stream-needs-offload", StreamNeedsOffload},
      {"delay-needs-host-update", DelayNeedsHostUpdate},
      {"parameters-need-updates-away", ParametersNeedUpdatesAway},
  };
  return rules;
}

std::span<const PlanModelRule> PlanModelRules() {
  static const std::vector<PlanModelRule> rules = {
      {"stages-need-layers", StagesNeedLayers},
  };
  return rules;
}

Result<void> CheckRules(const Plan& plan) {
  for (const PlanRule& rule : PlanRules()) {
    if (std::string why = rule.broken(plan); !why.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::move(why));
    }
  }
  return {};
}

Result<void> CheckRules(const Plan& plan, const ModelSpec& model) {
  for (const PlanModelRule& rule : PlanModelRules()) {
    if (std::string why = rule.broken(plan, model); !why.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::move(why));
    }
  }
  return {};
}

}  // namespace foretrain

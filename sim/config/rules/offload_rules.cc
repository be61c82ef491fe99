#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include "sim/config/plan/plan_fields.h"

namespace foretrain {

// offload_fraction is the share of optimizer state that is offloaded.
std::string FractionNeedsOffload(const Plan& plan) {
  if (plan.offload_fraction == 1.0 || plan.offload_optimizer != OffloadTarget::kNone) return {};
  return fmt::format(
      "offload_fraction {} with offload_optimizer none: it is a share of offloaded state; use "
      "offload_optimizer host or offload_fraction 1",
      plan.offload_fraction);
}

// Streaming copies offloaded state to the device for the update and back.
std::string StreamNeedsOffload(const Plan& plan) {
  if (!plan.stream_optimizer || plan.offload_optimizer != OffloadTarget::kNone) return {};
  return "stream_optimizer with offload_optimizer none: state that lies on the device is updated "
         "there; use offload_optimizer host or leave stream_optimizer out";
}

// A delayed update runs on the host during the next step, so every parameter is one gradient late.
// The device has no time for it, and parameters updated on the device would not be late.
std::string DelayNeedsHostUpdate(const Plan& plan) {
  if (!plan.delayed_update) return {};
  if (plan.offload_optimizer == OffloadTarget::kNone) {
    return "delayed_update with offload_optimizer none: only the host's processors can update "
           "during the next step; use offload_optimizer host or leave delayed_update out";
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

// Offloaded state is moved in slices, and the code for slices handles fp32 only.
std::string OffloadedMomentsAreFp32(const Plan& plan) {
  if (plan.offload_optimizer == OffloadTarget::kNone) return {};
  if (plan.optimizer == OptimizerKind::kSgd) {
    return fmt::format(
        "offload_optimizer {} with optimizer sgd: it keeps no state; use optimizer adamw or "
        "offload_optimizer none",
        Name(plan.offload_optimizer));
  }
  if (plan.moments == MomentFormat::kFp32) return {};
  return fmt::format(
      "offload_optimizer {} with moments {}: what is moved in pieces is fp32; use moments fp32 or "
      "offload_optimizer none",
      Name(plan.offload_optimizer),
      PlanFieldOf("moments").choices[static_cast<std::size_t>(plan.moments)]);
}

// Gradients on the host save memory only if no update on the device reads them.
std::string GradientsNeedOffloadedUpdates(const Plan& plan) {
  if (plan.offload_gradients == OffloadTarget::kNone) return {};
  if (plan.offload_optimizer != OffloadTarget::kNone && plan.offload_fraction == 1.0) return {};
  return fmt::format(
      "offload_gradients {} with offload_optimizer {} and offload_fraction {}: updates on the "
      "device "
      "would bring all of them back; use offload_optimizer host and offload_fraction 1",
      Name(plan.offload_gradients), Name(plan.offload_optimizer), plan.offload_fraction);
}

std::string GradientsStayInMemory(const Plan& plan) {
  if (plan.offload_gradients != OffloadTarget::kNvme) return {};
  return "offload_gradients nvme: every micro-batch adds to them, which no disk does; use "
         "offload_gradients host";
}

// Offloaded gradients of several replicas are summed before they leave the device. A sum at the end
// would have to bring all of them back.
std::string GradientsLeaveSummed(const Plan& plan) {
  if (plan.offload_gradients == OffloadTarget::kNone || plan.DataParallel() == 1 ||
      plan.zero_stage >= 2 || plan.reduction_time == ReductionTime::kMicroBatch) {
    return {};
  }
  return fmt::format(
      "offload_gradients {} with reduction_time end on {} data-parallel ranks: what leaves the "
      "device "
      "is a micro-batch's sum over ranks; use {} or offload_gradients none",
      Name(plan.offload_gradients), plan.DataParallel(),
      plan.GoesBothWays() ? "reduction_time micro-batch, schedule dualpipe-v"
                          : "reduction_time micro-batch, zero_stage 2");
}

// The number of skipped steps belongs to the running step, not to the step whose gradients arrive
// late.
std::string DelayNeedsPlainLoss(const Plan& plan) {
  if (!plan.delayed_update || plan.loss_scale <= 0) return {};
  return fmt::format(
      "delayed_update with loss_scale {}: a skipped step would be known one step late; leave "
      "delayed_update out or use loss_scale 0",
      plan.loss_scale);
}

// Parameters on the host must be updated there, must not change during a step, and must be sharded:
// otherwise each rank's host would hold a full copy.
std::string ParametersNeedOffloadedUpdates(const Plan& plan) {
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
           " with delayed_update: the step that overlaps the update reads what it "
           "changes; leave delayed_update out";
  }
  if (plan.DataParallel() == 1 || plan.zero_stage == 3) return {};
  return fmt::format(
      "{} with zero_stage {} on {} data-parallel ranks: each host would hold all parameters; use "
      "zero_stage 3",
      what, plan.zero_stage, plan.DataParallel());
}

}  // namespace foretrain

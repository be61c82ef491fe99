#include <fmt/format.h>

#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/plan_rules.h"

namespace foretrain {

namespace {

// The field of a plan under which an optimizer cannot update parameters in fp32, on the device, at
// the end of the step; null if there is none.
const char* AgainstPlainUpdates(const Plan& plan) {
  return plan.StepsOverlap()                              ? "schedule"
         : plan.post_validation                           ? "post_validation"
         : plan.offload_optimizer != OffloadTarget::kNone ? "offload_optimizer"
         : plan.moments != MomentFormat::kFp32            ? "moments"
         : plan.loss_scale > 0                            ? "loss_scale"
         : plan.HasAdapters()                             ? "method"
                                                          : nullptr;
}

}  // namespace

// Matrices must be whole, and their updates end the step on the device.
std::string MuonNeedsPlainUpdates(const Plan& plan) {
  if (plan.optimizer != OptimizerKind::kMuon) return {};
  const char* const field = plan.tp > 1 ? "tp" : AgainstPlainUpdates(plan);
  if (field == nullptr) return {};
  return fmt::format(
      "optimizer muon with {} {}: it updates whole matrices in fp32, on the device and after the "
      "last micro-batch; use optimizer adamw or leave {} out",
      field, TextOf(PlanFieldOf(field), plan), field);
}

// Its sums over a tensor follow the last micro-batch.
std::string AdafactorNeedsPlainUpdates(const Plan& plan) {
  if (plan.optimizer != OptimizerKind::kAdafactor) return {};
  const char* const field = AgainstPlainUpdates(plan);
  if (field == nullptr) return {};
  return fmt::format(
      "optimizer adafactor with {} {}: it updates in fp32, on the device and after the last "
      "micro-batch; use optimizer adamw or leave {} out",
      field, TextOf(PlanFieldOf(field), plan), field);
}

// The average is taken right after an update on the device, which must be the step's only one.
std::string AverageNeedsPlainUpdates(const Plan& plan) {
  if (plan.average_decay == 0) return {};
  const char* const field = plan.StepsOverlap()                              ? "schedule"
                            : plan.post_validation                           ? "post_validation"
                            : plan.offload_optimizer != OffloadTarget::kNone ? "offload_optimizer"
                                                                             : nullptr;
  if (field == nullptr) return {};
  return fmt::format(
      "average_decay {} with {} {}: averages follow updates on the device that end the step; leave "
      "one of the two out",
      plan.average_decay, field, TextOf(PlanFieldOf(field), plan));
}

}  // namespace foretrain

#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include "sim/config/plan/plan_fields.h"

namespace foretrain {
namespace {

// Schedules whose ranks begin the next step at different times.
bool HasZeroBubble(ScheduleKind schedule) {
  return schedule == ScheduleKind::kZbH1 || schedule == ScheduleKind::kZbH2 ||
         schedule == ScheduleKind::kZbV;
}

}  // namespace

// A rank may be at most one step ahead of the others, because edges reach back one step. With fewer
// micro-batches than stages it would be further ahead.
std::string OverlapNeedsMicroBatches(const Plan& plan) {
  const std::int64_t m = plan.MicroBatches();
  if (!plan.StepsOverlap() || m >= plan.pp) return {};
  return fmt::format(
      "schedule {} with pp {} and {} micro-batches: no rank may be more than a step ahead, so it "
      "needs at least {}; use global_batch {} or schedule 1f1b",
      Name(plan.schedule), plan.pp, m, plan.pp, plan.pp * plan.dp * plan.micro_batch);
}

// A value that needs all stages before any update would drain the pipeline each step.
std::string OverlapUpdatesAlone(const Plan& plan) {
  if (!plan.StepsOverlap()) return {};
  for (const char* name : {"clip_norm", "loss_scale"}) {
    const PlanField& field = PlanFieldOf(name);
    if (plan.*field.number <= 0) continue;
    return fmt::format(
        "schedule {} with {} {}: an update would wait for the gradients of all stages, which "
        "drains "
        "the pipeline that this schedule keeps full; use {} 0 or schedule 1f1b",
        Name(plan.schedule), name, plan.*field.number, name);
  }
  return {};
}

// Older parameters are kept whole, and PipeDream updates after every micro-batch.
std::string OverlapKeepsWholeParameters(const Plan& plan) {
  const int max = plan.UpdatesEachMicroBatch() ? 0 : 2;
  if (!plan.StepsOverlap() || plan.zero_stage <= max) return {};
  return fmt::format(
      "schedule {} with zero_stage {}: each rank keeps the older parameters that micro-batches in "
      "flight use, whole{}; use zero_stage {} or schedule 1f1b",
      Name(plan.schedule), plan.zero_stage,
      plan.UpdatesEachMicroBatch() ? ", and updates them after each micro-batch" : "", max);
}

// PipeDream updates after each micro-batch, so gradients are summed then in any case.
std::string PipeDreamSumsOnce(const Plan& plan) {
  if (!plan.UpdatesEachMicroBatch() || plan.reduction_time == ReductionTime::kEnd) return {};
  return fmt::format(
      "schedule {} with reduction_time micro-batch: each micro-batch is an update, so that its "
      "gradients are summed over ranks once anyhow; use reduction_time end",
      Name(plan.schedule));
}

// Older parameters are kept bucket by bucket; frozen ones would need no versions.
std::string OverlapTrainsAll(const Plan& plan) {
  if (!plan.StepsOverlap() || plan.method == TrainingMethod::kFull) return {};
  return fmt::format(
      "schedule {} with method {}: it keeps older versions of all parameters; use method full or "
      "schedule 1f1b",
      Name(plan.schedule), TextOf(PlanFieldOf("method"), plan));
}

// Several versions of parameters are in use at once, which the offload code does not keep.
std::string OverlapStaysOnTheDevice(const Plan& plan) {
  if (!plan.StepsOverlap()) return {};
  for (const char* name :
       {"offload_optimizer", "offload_gradients", "offload_parameters", "offload_activations"}) {
    const PlanField& field = PlanFieldOf(name);
    if (HasDefault(field, plan)) continue;
    return fmt::format(
        "schedule {} with {} {}: what is in flight from step to step, and the parameters it uses, "
        "stay on the device; use {} none or schedule 1f1b",
        Name(plan.schedule), name, field.choices[static_cast<std::size_t>(field.get(plan))], name);
  }
  return {};
}

// Post-validation updates before global values are known and corrects the update later. That helps
// only where ranks begin the next step at different times.
std::string PostValidationNeedsZeroBubble(const Plan& plan) {
  if (!plan.post_validation) return {};
  if (!HasZeroBubble(plan.schedule)) {
    return fmt::format(
        "post_validation with schedule {}: it keeps the ranks of zb-h1, zb-h2 and zb-v from "
        "waiting "
        "for one another at a step's end, others do so anyhow; use schedule zb-h1 or leave "
        "post_validation out",
        Name(plan.schedule));
  }
  if (plan.pp > 1) return {};
  return "post_validation with pp 1: one stage knows all gradients before it updates; use pp 2 or "
         "leave post_validation out";
}

std::string PostValidationNeedsWhatToValidate(const Plan& plan) {
  if (!plan.post_validation || plan.clip_norm > 0 || plan.loss_scale > 0) return {};
  return "post_validation with clip_norm 0 and loss_scale 0: an update that is neither clipped nor "
         "skipped waits for no other stage; use clip_norm 1 or leave post_validation out";
}

// Rolling an update back needs the full state where the update ran.
std::string PostValidationKeepsFp32OnTheDevice(const Plan& plan) {
  if (!plan.post_validation) return {};
  if (plan.moments != MomentFormat::kFp32) {
    return fmt::format(
        "post_validation with moments {}: an update is taken back from its moments, which would be "
        "rounded twice; use moments fp32 or leave post_validation out",
        PlanFieldOf("moments").choices[static_cast<std::size_t>(plan.moments)]);
  }
  if (plan.offload_optimizer == OffloadTarget::kNone) return {};
  return fmt::format(
      "post_validation with offload_optimizer {}: an amendment would bring all state in again; use "
      "offload_optimizer none or leave post_validation out",
      Name(plan.offload_optimizer));
}

// First and last stage share a table; they would wait for each other at each micro-batch.
std::string PipeDreamUntiesEmbeddings(const Plan& plan, const ModelSpec& model) {
  const bool shares = model.tied_embeddings || model.predict_ahead > 0;
  if (!plan.UpdatesEachMicroBatch() || !shares || plan.pp == 1) return {};
  return fmt::format(
      "schedule {} with pp {} and {}: first and last stage would wait for one another's gradients "
      "of the token table at each micro-batch; use schedule pipedream-2bw",
      Name(plan.schedule), plan.pp, model.tied_embeddings ? "tied_embeddings" : "predict_ahead");
}

// The choice bias has no gradient, and older versions exist only of parameters that are updated.
std::string OverlapTrainsAllOfTheRouter(const Plan& plan, const ModelSpec& model) {
  if (!plan.StepsOverlap() || model.router != RouterKind::kSigmoid) return {};
  return fmt::format(
      "schedule {} with router sigmoid: it keeps older versions of all parameters, and no gradient "
      "trains the bias of the router's choice; use schedule 1f1b",
      Name(plan.schedule));
}

}  // namespace foretrain

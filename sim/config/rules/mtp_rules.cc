#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include "sim/config/plan/plan_fields.h"

namespace foretrain {

// The token after the last one of a rank's part lies on another rank.
std::string MtpNeedsWholeSequences(const Plan& plan, const ModelSpec& model) {
  if (model.predict_ahead == 0 || plan.cp == 1) return {};
  return fmt::format(
      "cp {} with predict_ahead {}: the token behind the last of a rank's part of a sequence lies "
      "on another rank; use cp 1",
      plan.cp, model.predict_ahead);
}

std::string MtpNeedsAllLogits(const Plan& plan, const ModelSpec& model) {
  if (model.predict_ahead == 0 || plan.loss_chunks == 1) return {};
  return fmt::format(
      "loss_chunks {} with predict_ahead {}: chunks make gradients in the forward, before those of "
      "the tokens further ahead; use loss_chunks 1",
      plan.loss_chunks, model.predict_ahead);
}

std::string MtpDropsNothing(const Plan& plan, const ModelSpec& model) {
  if (model.predict_ahead == 0 || (plan.dropout == 0 && plan.attention_dropout == 0)) return {};
  return fmt::format(
      "dropout {} and attention_dropout {} with predict_ahead {}: layers that predict ahead draw "
      "no "
      "masks; use 0 for both",
      plan.dropout, plan.attention_dropout, model.predict_ahead);
}

std::string AdaptersLeaveMtpOut(const Plan& plan, const ModelSpec& model) {
  if (!plan.HasAdapters() || model.predict_ahead == 0) return {};
  return fmt::format(
      "method {} with predict_ahead {}: a layer that predicts ahead has no adapters; use method "
      "full",
      TextOf(PlanFieldOf("method"), plan), model.predict_ahead);
}

// Two ranks hold the last stage, and two hold the token table that it shares with the first.
std::string MtpNeedsOneLastStage(const Plan& plan, const ModelSpec& model) {
  if (model.predict_ahead == 0 || plan.StageCopies() == 1) return {};
  return fmt::format(
      "schedule {} with predict_ahead {}: its stages lie on two ranks each, and so would the table "
      "of tokens that the last one shares with the first; use schedule dualpipev",
      Name(plan.schedule), model.predict_ahead);
}

}  // namespace foretrain

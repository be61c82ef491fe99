#include "sim/spec/adapter_rules.h"

#include <fmt/format.h>

namespace foretrain {

std::string AdaptersNeedLora(const Plan& plan) {
  const Plan standard;
  if (plan.method == TrainingMethod::kLora) return {};
  if (plan.lora_rank != standard.lora_rank) {
    return fmt::format(
        "lora_rank {} with method full: there are no adapters; use method lora or lora_rank {}",
        plan.lora_rank, standard.lora_rank);
  }
  if (plan.lora_alpha == standard.lora_alpha) return {};
  return fmt::format(
      "lora_alpha {} with method full: there are no adapters; use method lora or lora_alpha {}",
      plan.lora_alpha, standard.lora_alpha);
}

std::string AdaptersAreScaled(const Plan& plan) {
  if (plan.method != TrainingMethod::kLora || plan.lora_alpha > 0) return {};
  return fmt::format(
      "lora_alpha 0 with method lora: adapters would do nothing and learn nothing; use lora_alpha "
      "{}",
      2 * plan.lora_rank);
}

std::string AdaptersAreThin(const Plan& plan, const ModelSpec& model) {
  if (plan.method != TrainingMethod::kLora || plan.lora_rank <= model.hidden) return {};
  return fmt::format(
      "lora_rank {} with method lora: the model has hidden {}, and no adapter needs a higher rank; "
      "use lora_rank {}",
      plan.lora_rank, model.hidden, model.hidden);
}

std::string AdaptersLeaveExpertsOut(const Plan& plan, const ModelSpec& model) {
  if (plan.method != TrainingMethod::kLora || model.experts == 0) return {};
  return fmt::format(
      "method lora with {} experts: only dense layers have adapters; use method full",
      model.experts);
}

std::string AdaptersLeaveLatentAttentionOut(const Plan& plan, const ModelSpec& model) {
  if (plan.method != TrainingMethod::kLora || !model.IsLatent()) return {};
  return fmt::format(
      "method lora with latent attention of rank {}: only attention by heads has adapters; use "
      "method full",
      model.key_value_rank);
}

}  // namespace foretrain

#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include "sim/config/plan/plan_fields.h"

namespace foretrain {
namespace {

std::string MethodOf(const Plan& plan) { return TextOf(PlanFieldOf("method"), plan); }

}  // namespace

std::string AdaptersNeedLora(const Plan& plan) {
  const Plan standard;
  if (plan.HasAdapters()) return {};
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
  if (!plan.HasAdapters() || plan.lora_alpha > 0) return {};
  return fmt::format(
      "lora_alpha 0 with method {}: adapters would do nothing and learn nothing; use lora_alpha {}",
      MethodOf(plan), 2 * plan.lora_rank);
}

std::string AdaptersAreThin(const Plan& plan, const ModelSpec& model) {
  if (!plan.HasAdapters() || plan.lora_rank <= model.hidden) return {};
  return fmt::format(
      "lora_rank {} with method {}: the model has hidden {}, and no adapter needs a higher rank; "
      "use "
      "lora_rank {}",
      plan.lora_rank, MethodOf(plan), model.hidden, model.hidden);
}

// Weights dequantized from 4 bits have 16 bits. Products of fewer bits would quantize them again,
// with other scales.
std::string QuantizedBaseIsReadIn16Bits(const Plan& plan) {
  if (!plan.QuantizesBase() || !plan.QuantizesProducts()) return {};
  return fmt::format(
      "precision {} with method qlora: weights of 4 bits are made 16-bit ones for their products; "
      "use precision bf16, or method lora",
      Name(plan.precision));
}

std::string AdaptersLeaveExpertsOut(const Plan& plan, const ModelSpec& model) {
  if (!plan.HasAdapters() || model.experts == 0) return {};
  return fmt::format("method {} with {} experts: only dense layers have adapters; use method full",
                     MethodOf(plan), model.experts);
}

std::string AdaptersLeaveLatentAttentionOut(const Plan& plan, const ModelSpec& model) {
  if (!plan.HasAdapters() || !model.IsLatent()) return {};
  return fmt::format(
      "method {} with latent attention of rank {}: only attention by heads has adapters; use "
      "method "
      "full",
      MethodOf(plan), model.key_value_rank);
}

}  // namespace foretrain

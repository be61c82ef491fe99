#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include <utility>

#include "sim/config/plan/plan_fields.h"

namespace foretrain {
namespace {

std::string TextOf(const char* field, const Plan& plan) { return TextOf(PlanFieldOf(field), plan); }

}  // namespace

// weights chooses the storage of parameters when activations have 16 bits; with fp32 activations
// there is only one.
std::string WeightsNeedShortActivations(const Plan& plan) {
  if (plan.weights == WeightStorage::kMaster || plan.HasShortActivations()) return {};
  return fmt::format(
      "weights {} with precision {}: parameters are fp32 and nothing is cast; use precision bf16 "
      "or "
      "weights master",
      TextOf("weights", plan), Name(plan.precision));
}

std::string GradientsNeedShortActivations(const Plan& plan) {
  if (plan.gradients == GradientFormat::kFp32 || plan.HasShortActivations()) return {};
  return fmt::format(
      "gradients compute with precision {}: that is fp32; use precision bf16 or gradients fp32",
      Name(plan.precision));
}

// 16-bit parameters are gathered in 16 bits already, so only shorter formats change anything.
std::string GatherFormatShortens(const Plan& plan) {
  if (plan.gather_format != GatherFormat::kBf16 || !plan.HasShortActivations()) return {};
  return fmt::format(
      "gather_format bf16 with precision {}: parameters are gathered in 16 bits anyhow; use "
      "gather_format fp32, which leaves them as they are, or int8",
      Name(plan.precision));
}

// Both the copy between uses and the one that is updated would lie on the host.
std::string MastersLeaveParametersHere(const Plan& plan) {
  const bool masters = plan.HasShortActivations() && plan.weights == WeightStorage::kMaster;
  if (!masters || plan.offload_parameters == OffloadTarget::kNone) return {};
  return fmt::format(
      "offload_parameters {} with precision {} and weights master: offloaded parameters are "
      "their own masters; use weights fp32 or offload_parameters none",
      Name(plan.offload_parameters), Name(plan.precision));
}

// Blocks of one kind read parameters in one format only.
std::string UnshardedIsReadAsGathered(const Plan& plan) {
  const bool casts = plan.HasShortActivations() && plan.weights == WeightStorage::kFp32;
  if (!casts || plan.unsharded_bytes == 0) return {};
  return fmt::format(
      "unsharded_bytes {} with precision {} and weights fp32: what is gathered is cast to 16 bits, "
      "what is left whole is not; use weights master or unsharded_bytes 0",
      plan.unsharded_bytes, Name(plan.precision));
}

// Taking an update back recomputes the old value from the new one. That is only accurate in fp32.
std::string PostValidationAmendsFp32(const Plan& plan) {
  if (!plan.post_validation || !plan.HasShortActivations()) return {};
  if (plan.weights == WeightStorage::kFp32 && plan.gradients == GradientFormat::kFp32) return {};
  return fmt::format(
      "post_validation with precision {}, weights {} and gradients {}: an update is taken back "
      "from "
      "fp32 parameters and gradients alone; use weights fp32 and gradients fp32, or leave "
      "post_validation out",
      Name(plan.precision), TextOf("weights", plan), TextOf("gradients", plan));
}

std::string ScaleWindowNeedsAScale(const Plan& plan) {
  if (plan.loss_scale_window == 0 || plan.loss_scale > 0) return {};
  return fmt::format(
      "loss_scale_window {} with loss_scale 0: there is no scale that could change; use loss_scale "
      "65536, which it begins with, or loss_scale_window 0",
      plan.loss_scale_window);
}

// The scale may change between the update and its reversal, which needs the same scale.
std::string ScaleIsKnownWhereItIsUndone(const Plan& plan) {
  if (plan.loss_scale_window == 0 || !plan.post_validation) return {};
  return fmt::format(
      "loss_scale_window {} with post_validation: an update is taken back with the scale that it "
      "was "
      "made with; use loss_scale_window 0 or leave post_validation out",
      plan.loss_scale_window);
}

// Scales belong to blocks of a row, so every width that a product reads must be whole blocks.
std::string ProductsNeedWholeBlocks(const Plan& plan, const ModelSpec& model) {
  const bool blocks = plan.precision == Precision::kFp8Block || plan.precision == Precision::kFp4;
  if (!blocks) return {};
  const std::int64_t block = plan.precision == Precision::kFp4 ? 16 : 128;
  const std::int64_t experts_tp = plan.ExpertsSpanTp() ? 1 : plan.tp;
  const bool dense = model.DenseLayers() > 0;
  const std::pair<const char*, std::int64_t> widths[] = {
      {"hidden", model.hidden},
      {"heads * head_dim / tp", model.heads * model.head_dim / plan.tp},
      {"the width of q, k and v of a rank", model.QkvWidthOn(plan.tp)},
      {"ffn_hidden / tp", dense ? model.ffn_hidden / plan.tp : 0},
      {"shared_ffn_hidden / tp", model.shared_ffn_hidden / plan.tp},
      {"expert_ffn_hidden", model.experts > 0 ? model.expert_ffn_hidden / experts_tp : 0}};
  for (const auto& [name, width] : widths) {
    if (width % block == 0) continue;
    return fmt::format(
        "precision {}: {} is {}, and rows are cut into blocks of {} numbers that share a scale; "
        "use "
        "precision fp8 or another tp",
        Name(plan.precision), name, width, block);
  }
  return {};
}

}  // namespace foretrain

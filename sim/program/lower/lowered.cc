#include "sim/program/lower/lowered.h"

#include <string>

#include "sim/spec/plan_fields.h"

namespace foretrain {
namespace {

// Fields that have one value so far: their default.
constexpr std::string_view kNotLowered[] = {"cp",
                                            "cp_kind",
                                            "ep",
                                            "expert_tp",
                                            "sequence_parallel",
                                            "vocab_parallel",
                                            "post_validation",
                                            "replicas",
                                            "prefetch_depth",
                                            "gather_format",
                                            "reduction_time",
                                            "recompute_layers",
                                            "loss_chunks",
                                            "mlp_tiles",
                                            "tp_tiles",
                                            "moe_pieces",
                                            "capacity_factor",
                                            "fuse",
                                            "offload_gradients",

                                            "optimizer",
                                            "moments",
                                            "loss_scale",
                                            "method",
                                            "lora_rank",
                                            "lora_alpha"};

std::string NotLowered(const Plan& plan) {
  for (const std::string_view name : kNotLowered) {
    if (!HasDefault(PlanFieldOf(name), plan)) return std::string(name);
  }
  if (plan.zero_stage == 2) return "zero_stage 2";
  if (plan.recompute == RecomputeKind::kSelective) return "recompute selective";
  if (plan.schedule == ScheduleKind::kPipeDream || plan.schedule == ScheduleKind::kPipeDream2bw) {
    return "schedule " + std::string(Name(plan.schedule));
  }
  return {};
}

}  // namespace

Result<void> CheckLowered(const Plan& plan) {
  const std::string what = NotLowered(plan);
  if (what.empty()) return {};
  return Fail(ErrorCode::kUnsupported,
              what + ": this version compiles no plan with it; leave it at its default");
}

}  // namespace foretrain

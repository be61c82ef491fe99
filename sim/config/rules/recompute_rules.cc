#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/plan_rules.h"

namespace foretrain {

// recompute_layers limits recomputation to some layers of a stage, so it needs a kind to limit.
std::string RecomputeLayersNeedRecompute(const Plan& plan) {
  if (plan.recompute_layers == 0 || plan.recompute != RecomputeKind::kNone) return {};
  return fmt::format(
      "recompute_layers {} with recompute none: no layer recomputes; use recompute full or "
      "recompute_layers 0",
      plan.recompute_layers);
}

std::string RecomputeEveryNeedsRecompute(const Plan& plan) {
  if (plan.recompute_every == 1 || plan.recompute != RecomputeKind::kNone) return {};
  return fmt::format(
      "recompute_every {} with recompute none: no layer recomputes; use recompute full or "
      "recompute_every 1",
      plan.recompute_every);
}

// Full recomputation rebuilds all modules and none rebuilds nothing.
std::string RecomputeModulesAreSelective(const Plan& plan) {
  if (plan.recompute_modules == 0 || plan.recompute == RecomputeKind::kSelective) return {};
  return fmt::format(
      "recompute_modules {} with recompute {}: only selective recomputation chooses modules; use "
      "recompute selective or recompute_modules default",
      TextOf(PlanFieldOf("recompute_modules"), plan), Name(plan.recompute));
}

// A named module that no layer has would silently save nothing.
std::string RecomputeModulesExist(const Plan& plan, const ModelSpec& model) {
  struct Need {
    RecomputeModule module;
    bool met;
    std::string_view of;  // what the model lacks
  };
  const bool shared = model.shared_ffn_hidden > 0, dense = model.DenseLayers() > 0;
  const std::array<Need, 6> needs = {{
      {RecomputeModule::kActivation, dense || shared, "dense layers or shared experts"},
      {RecomputeModule::kMlp, dense, "dense layers"},
      {RecomputeModule::kLatentUp, model.IsLatent(), "latent attention"},
      {RecomputeModule::kExpertActivation, model.experts > 0, "experts"},
      {RecomputeModule::kExperts, model.experts > 0, "experts"},
      {RecomputeModule::kSharedExperts, shared, "shared experts"},
  }};
  const PlanField& field = PlanFieldOf("recompute_modules");
  for (const Need& need : needs) {
    if (need.met || (plan.recompute_modules & BitOf(need.module)) == 0) continue;
    return fmt::format("recompute_modules {}: the model has no {}; leave {} out",
                       TextOf(field, plan), need.of, TextOf(field, BitOf(need.module)));
  }
  if (!model.IsLatent() || (plan.recompute_modules & BitOf(RecomputeModule::kQkv)) == 0) return {};
  return fmt::format(
      "recompute_modules {}: the projections of latent attention are mla-up's; use mla-up in place "
      "of qkv",
      TextOf(field, plan));
}

}  // namespace foretrain

// Small scenarios for tests of the planning views.
#pragma once

#include <string>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "ui/view_model/planning/plan_setup.h"
#include "ui/view_model/planning/what_if.h"

namespace foretrain {

// A model and a cluster of the catalogue with a plan in bf16 and micro-batch 1.
inline ui::Scenario SampleScenario(const std::string& model, const std::string& cluster, int dp,
                                   int tp, int pp, std::int64_t batch, std::int64_t sequence) {
  const auto catalogue = BuiltInCatalogue();
  ui::Scenario out;
  out.model = ResolveModel(model, "test", *catalogue)->model;
  out.cluster = *ParseCluster(cluster, *catalogue);
  out.machine = {out.cluster, DeriveProfile(out.cluster)};
  out.plan.dp = dp;
  out.plan.tp = tp;
  out.plan.pp = pp;
  out.plan.global_batch = batch;
  out.plan.micro_batch = 1;
  out.plan.sequence = sequence;
  out.plan.precision = Precision::kBf16;
  return out;
}

// gpt2-124m on one node of 4 H100, which is quick to search.
inline ui::PlanSetup SampleSetup() {
  ui::PlanSetup setup;
  setup.model = "gpt2-124m";
  setup.gpu = "h100-80gb-sxm";
  setup.devices_per_node = 4;
  setup.sequence = 256;
  setup.global_batch = 16;
  setup.simulated = 1;
  setup.constraints = {{"schedule", "1f1b"},      {"zero_stage", "0,1"},
                       {"recompute", "none"},     {"sequence_parallel", "off"},
                       {"vocab_parallel", "off"}, {"cp", "1"},
                       {"tp_tiles", "1"},         {"micro_batch", "1,2"}};
  return setup;
}

}  // namespace foretrain

#include "sim/cost/metric_options.h"

#include "sim/cost/profile/derive_profile.h"
#include "sim/cost/step_flops.h"
#include "sim/program/ir/precision.h"

namespace foretrain {

double PeakOf(const CostModel& costs, const Plan& plan) {
  const double published = PublishedPeak(costs.cluster().device, ProductFormat(plan));
  return (published > 0 ? published : BestGemmRate(costs.profile()).value) * plan.World();
}

MetricOptions MetricOptionsFor(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                               int warmup_steps) {
  const StepFlops flops = FlopsOfStep(model, plan);
  MetricOptions options;
  options.pipelines = PipelinesOf(plan.World(), plan.pp);
  options.warmup_steps = warmup_steps;
  options.tokens_per_step = static_cast<double>(plan.global_batch * plan.sequence);
  options.model_flops_per_step = flops.model;
  options.hardware_flops_per_step = flops.hardware;
  options.peak_flop_per_s = PeakOf(costs, plan);
  return options;
}

}  // namespace foretrain

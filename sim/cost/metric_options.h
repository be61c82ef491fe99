// Inputs of a timeline's metrics, apart from its spans. traces/metrics computes the metrics.
#pragma once

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

// FLOP/s of all devices of a plan, the denominator of MFU. It uses the device's published peak in
// the format of the plan's products. If none is published, it uses the profile's best GEMM.
double PeakOf(const CostModel& costs, const Plan& plan);

// Options for the timeline of a valid plan; medians skip the first `warmup_steps`. O(ranks).
MetricOptions MetricOptionsFor(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                               int warmup_steps);

}  // namespace foretrain

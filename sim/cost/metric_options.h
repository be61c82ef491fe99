// What the timeline of a plan needs beside its spans for its figures. Leaves out the figures:
// traces/metrics.
#pragma once

#include "sim/cost/cost_model.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

// FLOP/s of all devices of a plan together that MFU is held against: the device's published peak
// in the format of the plan's products or, where none is published, the profile's best GEMM.
double PeakOf(const CostModel& costs, const Plan& plan);

// For a timeline of a valid plan whose first `warmup_steps` are left out of medians. O(ranks).
MetricOptions MetricOptionsFor(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                               int warmup_steps);

}  // namespace foretrain

// The best plans of a training run on other numbers of devices of the same kind. In closed form.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/search/enumerate.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct DeviceCount {
  int devices = 0;
  std::optional<Candidate> best;  // none fits, or no split divides the batch
  bool pareto = false;            // none of fewer devices is as fast, none of as many as small
};

// The fastest plan for each of `nodes` nodes of the cluster of `costs` (a number of devices of one
// node where that has one), of the default space (default_space.h) for the sequence, the batch and
// all else that `base` says.
//
// Errors: kAborted; those of CostModel::Make.
Result<std::vector<DeviceCount>> CompareDeviceCounts(const ModelSpec& model, const CostModel& costs,
                                                     const Plan& base, const std::vector<int>& counts,
                                                     int threads,
                                                     const std::function<bool()>& cancelled);

// The same cluster with `devices` devices: whole nodes, or part of one.
// Errors: kInvalidArgument, a number that whole nodes do not make.
Result<ClusterSpec> WithDevices(const ClusterSpec& cluster, int devices);

// What training on so many tokens takes.
struct TrainingCost {
  double seconds = 0;
  double money = 0;  // in the unit of the price
};
// price_per_hour: of one device.
TrainingCost CostOfTraining(double tokens, double tokens_per_s, int devices, double price_per_hour);

}  // namespace foretrain

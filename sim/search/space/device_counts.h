// Finds the best plan of a training run on other numbers of devices of the same kind. In closed
// form.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/search/space/enumerate.h"

namespace foretrain {

struct DeviceCount {
  int devices = 0;
  std::optional<Candidate> best;  // `nullopt` if none fits or no split divides the batch
  bool pareto = false;            // no smaller number of devices is as fast
};

// The fastest plan for each number of devices in `counts`, on the machine of `costs` with that many
// devices. Plans are those of the default space (default_space.h) with the sequence, batch and
// other fields of `base`.
//
// Sorted by number of devices. Errors: kAborted if cancelled; those of WithDevices and
// CostModel::Make.
Result<std::vector<DeviceCount>> CompareDeviceCounts(const ModelSpec& model, const CostModel& costs,
                                                     const Plan& base,
                                                     const std::vector<int>& counts, int threads,
                                                     const std::function<bool()>& cancelled);

// The same cluster with `devices` devices: whole nodes, or part of one. Errors: kInvalidArgument if
// whole nodes do not make up that number.
Result<ClusterSpec> WithDevices(const ClusterSpec& cluster, int devices);

// Time, money and energy that training on a number of tokens takes.
struct TrainingCost {
  double seconds = 0;
  double money = 0;     // in the currency of the price
  double energy_j = 0;  // of the devices alone, if each draws its rated power all the time
};
//   price_per_hour  of one device
//   power_w         rated power of one device; 0: unknown
TrainingCost CostOfTraining(double tokens, double tokens_per_s, int devices, double price_per_hour,
                            double power_w);

}  // namespace foretrain

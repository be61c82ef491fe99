// Computes how step time depends on the rates of the machine: the value of a faster part. In closed
// form and for a fixed plan; another plan may be better on the changed machine.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"

namespace foretrain {

enum class Resource : std::uint8_t { kArithmetic, kMemory, kLinks, kNetwork, kPcie };
inline constexpr int kResourceCount = 5;
std::string_view Name(Resource resource);  // "FLOP/s", "HBM", "links", "network", "PCIe"

// A profile whose rate of one resource is `factor` times as high. Scales the published rates and
// the measured times of the ops that the resource bounds: GEMM and attention; other kernels;
// collectives within a node; collectives between nodes; copies. Latencies stay.
DeviceProfile WithRate(const DeviceProfile& profile, Resource resource, double factor);

struct Sensitivity {
  Resource resource = Resource::kArithmetic;
  double faster = 0;  // relative change of step time with 10 % more of the resource: <= 0
  double slower = 0;  // with 10 % less: >= 0
  double twice = 0;   // with twice as much: <= 0
};

// Sensitivities of a valid plan, in the order of Resource. Errors: those of CostModel::Make.
Result<std::vector<Sensitivity>> SensitivityOf(const ModelSpec& model, const Plan& plan,
                                               const CostModel& costs);

}  // namespace foretrain

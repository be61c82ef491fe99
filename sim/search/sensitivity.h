// How the time of a step follows from the rates of its machine: what a faster part would be worth.
// In closed form; leaves out that another plan may then be better.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

enum class Resource : std::uint8_t { kArithmetic, kMemory, kLinks, kNetwork, kPcie };
inline constexpr int kResourceCount = 5;
std::string_view Name(Resource resource);  // "FLOP/s", "HBM", "links", "network", "PCIe"

// The profile of a device whose rate of one kind is `factor` times as high: published rates, and
// times that were measured of the ops that it bounds (GEMM and attention; other kernels; collectives
// and transfers within a node, between nodes; copies). Latencies stay.
DeviceProfile WithRate(const DeviceProfile& profile, Resource resource, double factor);

struct Sensitivity {
  Resource resource = Resource::kArithmetic;
  double faster = 0;  // change of the step's time, a fraction, with 10 % more of it: <= 0
  double slower = 0;  // with 10 % less
  double twice = 0;   // with twice as much
};

// Of a valid plan, in the order of Resource. Errors: those of CostModel::Make.
Result<std::vector<Sensitivity>> SensitivityOf(const ModelSpec& model, const Plan& plan,
                                               const CostModel& costs);

}  // namespace foretrain

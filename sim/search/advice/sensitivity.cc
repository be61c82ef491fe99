#include "sim/search/advice/sensitivity.h"

#include <array>

#include "sim/search/evaluate/evaluator.h"

namespace foretrain {
namespace {

// The resource that bounds an op of this kind.
Resource ResourceOf(const ProfilePoint& point) {
  if (IsProduct(point.kind) || IsAttention(point.kind)) return Resource::kArithmetic;
  if (point.kind == OpKind::kCopy) return Resource::kPcie;
  if (!IsCommunication(point.kind)) return Resource::kMemory;
  return point.nodes > 1 ? Resource::kNetwork : Resource::kLinks;
}

std::vector<Figure*> RatesOf(ProfileRates& rates, Resource resource) {
  switch (resource) {
    case Resource::kArithmetic:
      return {&rates.gemm_flop_per_s,
              &rates.gemm_tf32_flop_per_s,
              &rates.gemm_fp16_flop_per_s,
              &rates.gemm_bf16_flop_per_s,
              &rates.gemm_fp8_flop_per_s,
              &rates.gemm_fp4_flop_per_s,
              &rates.attention_forward_flop_per_s,
              &rates.attention_backward_flop_per_s};
    case Resource::kMemory:
      return {&rates.memory_bytes_per_s};
    case Resource::kLinks:
      return {&rates.link_bytes_per_s};
    case Resource::kNetwork:
      return {&rates.network_bytes_per_s};
    case Resource::kPcie:
      return {&rates.copy_bytes_per_s};
  }
  return {};
}

std::vector<double*> PeaksOf(KernelModel& kernels, Resource resource) {
  switch (resource) {
    case Resource::kArithmetic:
      return {&kernels.half_flop_per_s, &kernels.fp8_flop_per_s, &kernels.fp4_flop_per_s};
    case Resource::kMemory:
      return {&kernels.memory_bytes_per_s};
    default:
      return {};
  }
}

}  // namespace

std::string_view Name(Resource resource) {
  constexpr std::array<std::string_view, kResourceCount> kNames = {"FLOP/s", "HBM", "links",
                                                                   "network", "PCIe"};
  return kNames[static_cast<std::size_t>(resource)];
}

// Published rates, the kernel model's peaks and measured points all scale, so that whichever of
// them prices an op shows the change.
DeviceProfile WithRate(const DeviceProfile& profile, Resource resource, double factor) {
  DeviceProfile out = profile;
  for (Figure* rate : RatesOf(out.rates, resource)) rate->value *= factor;
  if (out.kernels.has_value()) {
    for (double* peak : PeaksOf(*out.kernels, resource)) *peak *= factor;
  }
  for (ProfilePoint& point : out.points) {
    if (ResourceOf(point) != resource) continue;
    for (double* seconds : {&point.seconds, &point.p10_s, &point.p90_s}) *seconds /= factor;
  }
  return out;
}

// Evaluates the same plan in closed form on machines that differ in one rate: three evaluations for
// each resource.
Result<std::vector<Sensitivity>> SensitivityOf(const ModelSpec& model, const Plan& plan,
                                               const CostModel& costs) {
  const auto step_s = [&](const CostModel& machine) {
    return Evaluator(model, machine, AllPlanFields()).Evaluate(plan).step_s;
  };
  const double now_s = step_s(costs);
  std::vector<Sensitivity> out;
  for (int r = 0; r < kResourceCount; ++r) {
    Sensitivity one{static_cast<Resource>(r)};
    for (const auto& [factor, change] :
         {std::pair{1.1, &one.faster}, std::pair{0.9, &one.slower}, std::pair{2.0, &one.twice}}) {
      FT_ASSIGN(const CostModel other,
                CostModel::Make(costs.cluster(), WithRate(costs.profile(), one.resource, factor)));
      *change = step_s(other) / now_s - 1;
    }
    out.push_back(one);
  }
  return out;
}

}  // namespace foretrain

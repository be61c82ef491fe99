#include "sim/search/advice/pairs.h"

#include <cstddef>

#include "sim/learn/forecast_error.h"

namespace foretrain {

void MarkPairs(const ModelSpec& model, const CostModel& costs, int threads,
               std::vector<RankedPlan>& plans) {
  if (plans.empty()) return;
  std::vector<Plan> of;
  for (const RankedPlan& plan : plans) of.push_back(plan.plan);
  const std::vector<ConstantMoves> derivatives = DerivativesOf(model, costs, of, threads);
  const DeviceProfile& profile = costs.profile();
  const std::vector<double> covariance = CovarianceOf(profile);
  const auto uncertain = [&](std::size_t i) {
    const double share = profile.error > 0 ? plans[i].relative_error / profile.error : 1;
    UncertainStep out{plans[i].step_s, derivatives[i], share * PlanErrorOf(profile)};
    for (double& derivative : out.derivatives) derivative *= share;
    return out;
  };
  const UncertainStep first = uncertain(0);
  plans.front().tied = false;
  for (std::size_t i = 1; i < plans.size(); ++i) {
    plans[i].first_is_faster = FirstIsFaster(first, uncertain(i), covariance);
    plans[i].tied = plans[i].first_is_faster < kToldApart;
    if (plans[i].tied) plans.front().tied = true;
  }
}

}  // namespace foretrain

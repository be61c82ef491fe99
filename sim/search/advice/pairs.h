// Compares each plan of a search with the fastest: the probability that the order of the forecasts
// is that of measurements. Errors that both plans share cancel.
#pragma once

#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/cost/cost_model.h"
#include "sim/search/search.h"

namespace foretrain {

// Below this probability the forecast does not say which of two plans is faster.
inline constexpr double kToldApart = 0.9;

// Sets `first_is_faster` and `tied` of each plan but the first (sim/learn/forecast_error.h has the
// formula). The covariance is that of the profile. A plan whose ops were measured has a smaller
// relative_error than the profile's `error`; its constants and its own error shrink in proportion.
//   plans    fastest first
//   threads  >= 1; the result does not depend on the number
// O(13 evaluations per plan).
void MarkPairs(const ModelSpec& model, const CostModel& costs, int threads,
               std::vector<RankedPlan>& plans);

}  // namespace foretrain

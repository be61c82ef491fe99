// MakeForecast for whoever may lose interest. Leaves out why (ui/view_model/latest_worker.h).
#pragma once

#include <functional>

#include "sim/search/search.h"

namespace foretrain {

// As MakeForecast. `cancelled` is asked between compiling, verifying, costs and simulation, and as
// SimulateUntil says. Errors: those of MakeForecast; kAborted, `cancelled` said true.
Result<Forecast> MakeForecastUntil(const ModelSpec& model, const Plan& plan,
                                   const CostModel& costs, RankChoice ranks,
                                   const SimulateOptions& options,
                                   const std::function<bool()>& cancelled);

}  // namespace foretrain

// `train --replan`: another plan for a training that goes on with another number of ranks.
#pragma once

#include <functional>
#include <string>

#include "app/forecast/forecasting.h"
#include "base/result.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// The machine with so many ranks; 0: as the options say.
using MachineOfRanks = std::function<Result<ForecastContext>(int ranks)>;

// The fastest plan of `ranks` ranks that `plan` finds for the training of `saved`: sequence, batch,
// number formats, optimizer and method stay; what says how the ranks share the work is chosen anew.
// `saved` itself if it is a plan of so many ranks.
//
//   context  a machine of `ranks` devices
//
// Errors: those of SearchPlans, as kInfeasible if no plan fits.
Result<Plan> PlanForRanks(const ForecastContext& context, const Plan& saved, int ranks);

// PlanForRanks for the newest checkpoint of `resume` and the ranks of `context`. Where they have no
// plan, fewer are tried, and `context` becomes the machine that has one; not if a launcher has
// started `launched` > 1 processes, which all take part. Says on stderr what has changed. Errors:
// those of OpenNewest, of `machine` and of PlanForRanks.
Result<Plan> Replan(const std::string& resume, const MachineOfRanks& machine, int launched,
                    ForecastContext& context);

}  // namespace foretrain

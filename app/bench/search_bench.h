// Times the closed-form evaluation of plans. Leaves out its accuracy (tests/sim/search).
#pragma once

#include <cstdint>

#include "app/forecast/forecasting.h"

namespace foretrain {

struct EvaluationRate {
  std::int64_t plans = 0;  // different ones, of the default space
  double first_s = 0;      // to evaluate each plan once, with empty caches
  double seconds = 0;      // per plan with full caches: time, memory and their parts
};

// Evaluates about `plans` plans of the default space on one thread, spread over all its splits. The
// first round fills the caches; later rounds repeat for about `seconds`.
EvaluationRate MeasureEvaluations(const ForecastContext& context, std::int64_t plans,
                                  double seconds);

}  // namespace foretrain

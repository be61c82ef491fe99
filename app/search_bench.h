// How fast plans are evaluated in closed form. Leaves out how near they come (tests/sim/search).
#pragma once

#include <cstdint>

#include "app/forecasting.h"

namespace foretrain {

struct EvaluationRate {
  std::int64_t plans = 0;    // different ones, of the default space
  double first_s = 0;        // to evaluate each once, with all that is worked out on the way
  double seconds = 0;        // of a plan, once that is known: time, memory and their parts
};

// Evaluates some `plans` of the default space for the model on the machine, spread over all its
// splits, by one thread: once, and then for about `seconds` again and again.
EvaluationRate MeasureEvaluations(const ForecastContext& context, std::int64_t plans,
                                  double seconds);

}  // namespace foretrain

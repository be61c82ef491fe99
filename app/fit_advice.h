// What to change of a plan whose run has no memory: the cheapest changes, as options. Leaves out
// what a run needs and has, which the error itself says.
#pragma once

#include <cstdint>

#include "app/forecasting.h"
#include "base/result.h"
#include "sim/spec/plan.h"

namespace foretrain {

// The error, with the two changes of `plan` that cost the least time and fit in `memory_bytes` a
// rank by the forecast; the error itself where it is not about memory, where nothing fits, or
// where memory_bytes <= 0. Up to some seconds for large models.
Error WithAdvice(Error error, const ForecastContext& context, const Plan& plan,
                 std::int64_t memory_bytes);

}  // namespace foretrain

// The ZeRO stage from when gradients are reduced and parameters are gathered.
#pragma once

#include "sim/infer/order.h"

namespace foretrain {

InferredFact ZeroStageOf(const TracedStep& step, const InferredDegrees& degrees,
                         const InferredOrder& order);

}  // namespace foretrain

// The options of a training's optimizer that are no part of the plan, which names the optimizer.
#pragma once

#include "app/cli/arguments.h"
#include "base/result.h"
#include "runtime/ops/kernel_call.h"

namespace foretrain {

// --weight-decay, --beta1, --beta2 and --epsilon.
void DeclareOptimizer(Arguments& arguments, OptimizerSettings& settings);

// For example "decay 0.1, beta 0.9 0.95, epsilon 1e-08"; "-" for a beta2 that was not given.
std::string Describe(const OptimizerSettings& settings);

}  // namespace foretrain

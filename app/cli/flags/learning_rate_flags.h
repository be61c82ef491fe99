// The options of a training's learning rate.
#pragma once

#include "app/cli/arguments.h"
#include "base/result.h"
#include "runtime/run/learning_rate.h"

namespace foretrain {

// --lr, --lr-schedule, --warmup, --lr-min and --lr-decay-steps.
void DeclareLearningRate(Arguments& arguments, LearningRate& rate);

// Checks what was given; `rate.steps` must be set. Errors: kInvalidArgument, naming option, value
// and remedy: a rate that is none, a minimum above the peak, a minimum or decay steps although the
// rate is constant, or a fall for which the training has too few steps.
Result<void> CheckLearningRate(const LearningRate& rate);

}  // namespace foretrain

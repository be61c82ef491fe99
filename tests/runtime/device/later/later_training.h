// Checks that a plan trains the same on an asynchronous device.
#pragma once

#include "sim/config/plan/plan.h"

namespace foretrain {

// Trains the tiny GPT on the CPU and on an asynchronous device, with delays, with and without
// records and graphs. Expects the same bits and that all objects are destroyed.
void ExpectTrainsAlikeLater(const Plan& plan, const char* name);

}  // namespace foretrain

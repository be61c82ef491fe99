// Whether a plan trains the same where the device works later.
#pragma once

#include "sim/spec/plan.h"

namespace foretrain {

// Trains the tiny GPT on the CPU and on a device that does the CPU's work later, with delays,
// with and without records and graphs: expects the same bits, and that all was given back.
void ExpectTrainsAlikeLater(const Plan& plan, const char* name);

}  // namespace foretrain

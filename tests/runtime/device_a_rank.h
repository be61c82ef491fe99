// Training with a device for each rank and the tests' NCCL between them.
#pragma once

#include "training.h"

namespace foretrain {

// Trains the plan on this machine's processors, and on a device for each rank. Sums run in the
// order of ranks on both, but what is added to a sum that was there is added last by NCCL's ranks:
// losses agree to 1e-5, and gradients of the first step to 1e-5 of a tensor's largest.
void ExpectTrainsAlikeOnDevices(const ModelSpec& model, const Plan& plan, const char* name);

// The same with several ranks on each of two devices that read each other's memory, as threads: to
// the bit, since sums are those of threads on processors.
void ExpectTrainsAlikeOnTwoDevices(const ModelSpec& model, const Plan& plan, const char* name);

}  // namespace foretrain

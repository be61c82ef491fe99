// Training with one device for each rank and the fake NCCL between them.
#pragma once

#include "tests/runtime/training.h"

namespace foretrain {

// Trains the plan on the CPU and with one device for each rank. Sums run in rank order in both, but
// NCCL's ranks add an accumulated value last. Losses agree to 1e-5, and gradients of the first step
// to 1e-5 of a tensor's maximum.
void ExpectTrainsAlikeOnDevices(const ModelSpec& model, const Plan& plan, const char* name);

// As above with several ranks (threads) on each of two devices that can read each other's memory.
// Bit-identical, since sums are taken as on the CPU.
void ExpectTrainsAlikeOnTwoDevices(const ModelSpec& model, const Plan& plan, const char* name);

}  // namespace foretrain

// Makes products wait for the collectives of tensor parallelism as systems do that run both on one
// stream. Leaves out what a plan decides: this is a habit of the software that is forecast.
#pragma once

#include "sim/program/program.h"

namespace foretrain {

// Adds edges to each rank of a linked program: what computes behind a collective of tensor
// parallelism in an instruction begins when that has ended, though it reads something else
// [Megatron-LM before 2022, mpu/mappings.py]. Changes no order of issue. O(ops + edges).
void WaitForTensorSums(Program& program);

}  // namespace foretrain
